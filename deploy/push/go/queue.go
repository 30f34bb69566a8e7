package push

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"ticdcdump/push/feedpb"
)

// item is a message that is not kept. size is its serialized size.
type item struct {
	message *feedpb.TopicMessage
	size    int
	kept    func()
}

// queue holds what is not kept, in the order of Send; the first `sent` of it are in the stream that is open.
//
// Who puts waits for its turn, then for room: the order is that of the calls, and a large message is not overtaken for ever. Run alone
// takes, drops and rewinds.
type queue struct {
	bytesMax int64
	turn     chan struct{} // holds one while somebody puts
	room     chan struct{} // holds one after something was dropped
	more     chan struct{} // holds one after something was put
	ended    chan struct{} // closed by end

	mu    sync.Mutex
	items []item
	sent  int
	bytes int64
	since time.Time // of the last time that something was dropped, or that the first came to wait
	err   error
}

func newQueue(bytesMax int64) *queue {
	return &queue{
		bytesMax: bytesMax,
		turn:     make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
		more:     make(chan struct{}, 1),
		ended:    make(chan struct{}),
	}
}

func (q *queue) put(ctx context.Context, it item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return ctx.Err()
	case <-q.ended:
		return q.why()
	}
	for {
		if done, err := q.add(it); done || err != nil {
			return err
		}
		select {
		case <-q.room:
		case <-ctx.Done():
			return ctx.Err()
		case <-q.ended:
			return q.why()
		}
	}
}

// add returns false while there is no room.
func (q *queue) add(it item) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return false, q.err
	}
	cost := it.cost()
	if len(q.items) > 0 && q.bytes+cost > q.bytesMax {
		return false, nil
	}
	if len(q.items) == 0 {
		q.since = time.Now()
	}
	q.items = append(q.items, it)
	q.bytes += cost
	signal(q.more)
	return true, nil
}

// take gives what is to be sent next, as many as a SenderMessage of bytesMax holds, one at least if there is any.
func (q *queue) take(bytesMax int) []*feedpb.TopicMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	end, size := q.sent, envelopeBytesMax
	for end < len(q.items) {
		size += 1 + protowire.SizeBytes(q.items[end].size)
		if end > q.sent && size > bytesMax {
			break
		}
		end++
	}
	taken := make([]*feedpb.TopicMessage, 0, end-q.sent)
	for _, it := range q.items[q.sent:end] {
		taken = append(taken, it.message)
	}
	q.sent = end
	return taken
}

// rewind has everything sent again: a stream begins.
func (q *queue) rewind() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = 0
}

// drop forgets the oldest ones, and gives what is to be called for them.
func (q *queue) drop(count int) []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls := make([]func(), 0, count)
	for _, it := range q.items[:count] {
		q.bytes -= it.cost()
		if it.kept != nil {
			calls = append(calls, it.kept)
		}
	}
	clear(q.items[:count])
	q.items = q.items[count:]
	q.sent -= count
	q.since = time.Now()
	signal(q.room)
	return calls
}

func (q *queue) moved() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since = time.Now()
}

// stuckSince says since when nothing was kept while some wait; false: none waits.
func (q *queue) stuckSince() (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.since, len(q.items) > 0
}

func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// end lets nobody wait any more; the first reason counts.
func (q *queue) end(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = why
		close(q.ended)
	}
}

func (q *queue) why() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (it item) cost() int64 { return int64(it.size) + itemBytes }

// signal wakes the one who listens, now or when it comes to listen.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
