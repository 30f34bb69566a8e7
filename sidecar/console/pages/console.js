// Replaces the sections of an open page that have changed. Without it each page is whole, and is reloaded by hand.
"use strict";

const banner = document.getElementById("connection");
let lostAt = null;

function isUsed(section) {
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  const isTyped = focused && focused.matches("input, select, textarea");
  const hasChanges = [...section.querySelectorAll("input, select, textarea")].some((one) => one.type !== "hidden"
    && (one.matches("select") ? [...one.options].some((option) => option.selected !== option.defaultSelected && one.value !== "") : one.value !== one.defaultValue));
  return isTyped || hasChanges || section.querySelector("details[open]");
}

function placeOf(focused, section) {
  if (!focused || !section.contains(focused)) return null;
  const all = [...section.querySelectorAll("a, button, [tabindex]")];
  return all.indexOf(focused);
}

function replace({ id, html }) {
  const section = document.getElementById(id);
  if (!section) { location.reload(); return; }
  if (isUsed(section)) return;
  const place = placeOf(document.activeElement, section);
  const scrolled = [...section.querySelectorAll(".scrolls, pre")].map((one) => [one.scrollLeft, one.scrollTop]);
  section.innerHTML = html;
  [...section.querySelectorAll(".scrolls, pre")].forEach((one, at) => { if (scrolled[at]) [one.scrollLeft, one.scrollTop] = scrolled[at]; });
  if (place !== null && place >= 0) section.querySelectorAll("a, button, [tabindex]")[place]?.focus({ preventScroll: true });
}

function connect() {
  const events = new EventSource(document.body.dataset.live);
  events.addEventListener("open", () => { lostAt = null; banner.textContent = ""; document.documentElement.classList.remove("stale"); });
  events.addEventListener("sections", (event) => {
    const sections = JSON.parse(event.data);
    const there = [...document.querySelectorAll("main > section")].map((one) => one.id);
    if (sections.some((one) => !there.includes(one.id))) location.reload();
    else sections.forEach(replace);
  });
  events.addEventListener("error", () => {
    lostAt = lostAt || new Date();
    banner.textContent = `No connection to the sidecar since ${lostAt.toISOString().slice(11, 19)} UTC: what is shown is of then. Trying again …`;
    document.documentElement.classList.add("stale");
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 5000);
  });
}

document.addEventListener("submit", (event) => {
  const asked = event.submitter?.dataset.confirm;
  if (asked && !confirm(asked)) event.preventDefault();
});
if (document.body.dataset.live) connect();
