// Replaces the sections of an open page that have changed. Without it each page is whole, and is reloaded by hand.
"use strict";

const banner = document.getElementById("connection");
let events = null;
let lostAt = null;

function isUsed(section) {
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  const isTyped = focused && focused.matches("input, select, textarea");
  const hasChanges = [...section.querySelectorAll("input, select, textarea")].some((one) => one.type !== "hidden"
    && (one.matches("select") ? [...one.options].some((option) => option.selected !== option.defaultSelected && one.value !== "") : one.value !== one.defaultValue));
  const selection = document.getSelection();
  const isSelected = !selection.isCollapsed && section.contains(selection.anchorNode);
  return isTyped || hasChanges || isSelected || section.querySelector("details[open]");
}

// What a focused element is: after the section is replaced, the same one is focused, and no other that came to its place.
function nameOf(one) {
  return `${one.tagName} ${one.getAttribute("href") ?? one.getAttribute("aria-label") ?? one.textContent.trim()}`;
}

// Sections that changed while they were used: they are replaced when they are so no more.
const held = new Map();

function replace(id, html) {
  const section = document.getElementById(id);
  if (isUsed(section)) { held.set(id, html); return; }
  held.delete(id);
  const focused = section.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const scrolled = [...section.querySelectorAll(".scrolls, pre")].map((one) => [one.scrollLeft, one.scrollTop]);
  section.innerHTML = html;
  [...section.querySelectorAll(".scrolls, pre")].forEach((one, at) => { if (scrolled[at]) [one.scrollLeft, one.scrollTop] = scrolled[at]; });
  if (focused === null) return;
  const same = [...section.querySelectorAll("a, button, summary, [tabindex]")].find((one) => nameOf(one) === focused);
  (same ?? document.getElementById("content")).focus({ preventScroll: true });
}

function lost(text) {
  lostAt = lostAt || new Date();
  banner.textContent = `${text} since ${lostAt.toISOString().slice(11, 19)} UTC: what is shown is of then. Trying again …`;
  document.documentElement.classList.add("stale");
}

// A stream that is rejected says why; one that is not closed is asked for again by the browser.
async function rejected() {
  const answer = await fetch(document.body.dataset.live).catch(() => null);
  answer?.body?.cancel();
  if (answer?.status === 401) location.reload();
  else if (answer?.status === 503) lost("Too many pages are open, so this one is not renewed");
}

function connect() {
  const mine = events = new EventSource(document.body.dataset.live);
  events.addEventListener("open", () => { lostAt = null; banner.textContent = ""; document.documentElement.classList.remove("stale"); });
  events.addEventListener("sections", (event) => {
    const sections = JSON.parse(event.data);
    const there = [...document.querySelectorAll("main > section")].map((one) => one.id);
    if (sections.some((one) => !there.includes(one.id))) location.reload();
    else sections.forEach((one) => replace(one.id, one.html));
  });
  events.addEventListener("error", () => {
    lost("No connection to the sidecar");
    if (mine.readyState === EventSource.CLOSED) rejected().then(() => setTimeout(() => { if (mine === events) connect(); }, 5000));
  });
}

// A page that nobody sees needs no stream: a browser has few connections for all its pages of one address.
function followVisibility() {
  if (document.hidden) { events?.close(); events = null; }
  else if (events === null) connect();
}

document.addEventListener("submit", (event) => {
  const asked = event.submitter?.dataset.confirm;
  if (asked && !confirm(asked)) event.preventDefault();
});
if (document.body.dataset.live) {
  document.addEventListener("visibilitychange", followVisibility);
  setInterval(() => held.forEach((html, id) => replace(id, html)), 1000);
  followVisibility();
}
