package push

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	loadSenders = 4
	loadBytes   = 10_000 // of a value
)

// load sends from several goroutines, as fast as the client takes it, until finish.
type load struct {
	t       *testing.T
	ctx     context.Context
	end     atomic.Bool
	running sync.WaitGroup
	sent    [loadSenders]atomic.Int64 // that Send has taken
	kept    [loadSenders]atomic.Int64 // that were called back
}

func startLoad(t *testing.T, client *Client) *load {
	ctx, cancel := context.WithTimeout(context.Background(), patience+outage(t))
	t.Cleanup(cancel)
	l := &load{t: t, ctx: ctx}
	for number := range loadSenders {
		l.running.Go(func() { l.send(client, number) })
	}
	return l
}

// send sends "number at xxx…", at = 0, 1, 2, …
func (l *load) send(client *Client, number int) {
	for at := int64(0); !l.end.Load(); at++ {
		value := fmt.Sprintf("%d %d ", number, at)
		called := func() {
			if before := l.kept[number].Add(1) - 1; before != at {
				l.t.Errorf("sender %d: message %d was called back as the one after %d", number, at, before)
			}
		}
		if err := client.Send(l.ctx, message(value+strings.Repeat("x", loadBytes-len(value))), called); err != nil {
			l.t.Errorf("sender %d: %v", number, err)
			return
		}
		l.sent[number].Add(1)
	}
}

// finish ends the senders and waits until all is called back; it is how many messages each has sent.
func (l *load) finish() []int64 {
	l.t.Helper()
	l.end.Store(true)
	l.running.Wait()
	eventually(l.t, "all is kept", func() bool { return total(&l.kept) == total(&l.sent) })
	return each(&l.sent)
}

// parsed is the sender and number of a load's value.
func parsed(t *testing.T, value string) (number int, at int64) {
	t.Helper()
	if _, err := fmt.Sscanf(value, "%d %d ", &number, &at); err != nil {
		t.Fatalf("%.40q: %v", value, err)
	}
	return number, at
}

func each(counts *[loadSenders]atomic.Int64) []int64 {
	found := make([]int64, loadSenders)
	for number := range counts {
		found[number] = counts[number].Load()
	}
	return found
}

func total(counts *[loadSenders]atomic.Int64) int64 {
	sum := int64(0)
	for _, count := range each(counts) {
		sum += count
	}
	return sum
}

// outage is for how long a sidecar is away: TICDC_DUMP_OUTAGE=60s for a minute.
func outage(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("TICDC_DUMP_OUTAGE")
	if text == "" {
		return 2 * time.Second
	}
	found, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("TICDC_DUMP_OUTAGE: %v", err)
	}
	return found
}

// heapStaysBelow looks for that long at what this process holds, garbage collected.
func heapStaysBelow(t *testing.T, bytes uint64, during time.Duration) {
	t.Helper()
	first, most, looks := heap(), uint64(0), 0
	for until := time.Now().Add(during); time.Now().Before(until); time.Sleep(during / 50) {
		most = max(most, heap())
		looks++
	}
	t.Logf("heap over %s: %d kB at first, then %d kB at most, %d looks, bound %d kB", during, first>>10, most>>10, looks, bytes>>10)
	if most > bytes {
		t.Errorf("the heap is up to %d bytes, bound %d", most, bytes)
	}
}

// heap is without what was pooled, too: that goes with the second collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var found runtime.MemStats
	runtime.ReadMemStats(&found)
	return found.HeapAlloc
}
