package main

import (
	"context"

	"ticdcdump/push"
)

// sender is push.Client as it is needed here.
type sender interface {
	Send(ctx context.Context, message push.Message, kept func()) error
}

// played is what was sent and is kept.
type played struct{ messages, marks, bytes int }

// play sends every lane's messages in their order, lane n by sender n modulo their number, and returns when all are kept.
//
// A mark or a DDL of ts T (rule B of feed.proto) is sent when every other lane has come to one of T or later, or to its end, and all that was
// sent until then is kept: TiCDC said it when nothing at or below T was left to write to any partition. What a lane has after such a
// mark and at or below T is a repeat.
func play(ctx context.Context, lanes [][]recorded, senders []sender) (played, error) {
	line := &player{senders: senders, last: make([]chan struct{}, len(senders))}
	next := make([]int, len(lanes))
	for {
		marked := false
		var lowest uint64
		for lane, messages := range lanes {
			for next[lane] < len(messages) && !messages[next[lane]].mark {
				if err := line.send(ctx, lane, messages[next[lane]]); err != nil {
					return line.played, err
				}
				next[lane]++
			}
			if next[lane] < len(messages) && (!marked || messages[next[lane]].ts < lowest) {
				marked, lowest = true, messages[next[lane]].ts
			}
		}
		if err := line.wait(ctx); err != nil || !marked {
			return line.played, err
		}
		for lane, messages := range lanes {
			if next[lane] < len(messages) && messages[next[lane]].ts == lowest {
				if err := line.send(ctx, lane, messages[next[lane]]); err != nil {
					return line.played, err
				}
				line.played.marks++
				next[lane]++
			}
		}
	}
}

// player knows of each sender when the last message that it was given is kept.
type player struct {
	senders []sender
	last    []chan struct{}
	played  played
}

func (p *player) send(ctx context.Context, lane int, message recorded) error {
	at, kept := lane%len(p.senders), make(chan struct{})
	if err := p.senders[at].Send(ctx, message.Message, func() { close(kept) }); err != nil {
		if context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
		return err
	}
	p.last[at] = kept
	p.played.messages++
	p.played.bytes += len(message.Key) + len(message.Value)
	return nil
}

func (p *player) wait(ctx context.Context) error {
	for _, kept := range p.last {
		if kept == nil {
			continue
		}
		select {
		case <-kept:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
