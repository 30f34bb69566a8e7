package push

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"ticdcdump/push/feedpb"
)

const (
	version       = 2                // of feed.proto: the first that has messages
	welcomeMax    = 30 * time.Second // who has not welcomed for so long is no sidecar, or a hung one
	heartbeatPart = 3                // of Welcome.silent_max_ms
	never         = time.Hour
)

// stream is one connection's conversation: numbers and credit begin anew with it. One goroutine has it, Run's.
type stream struct {
	client  *Client
	address string
	began   time.Time
	spoke   time.Time // when the last message was given to gRPC

	welcome *feedpb.Welcome // nil until it comes
	credit  int64
	heard   uint64 // number of the last answer
	number  uint64 // of the last message that was made
	given   uint64 // of the last message that gRPC has
	next    *feedpb.SenderMessage
	batches []batch // sent and not kept
	kept    int     // messages
}

// batch says how many messages the SenderMessage of a number has.
type batch struct {
	number   uint64
	messages int
}

// converse goes on until the stream ends, and says why. What arrived before it ended has been heard by then.
func (s *stream) converse(ctx context.Context, answers <-chan *feedpb.SidecarMessage, out chan<- *feedpb.SenderMessage) error {
	s.client.queue.rewind()
	s.hello()
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		if s.next == nil && s.maySend() {
			s.batch()
		}
		var to chan<- *feedpb.SenderMessage
		if s.next != nil {
			to = out
		}
		timer.Reset(s.dueIn(time.Now()))
		select {
		case to <- s.next:
			s.given, s.next, s.spoke = s.number, nil, time.Now()
		case answer := <-answers:
			if err := s.hear(answer); err != nil {
				return err
			}
		case <-s.client.queue.more:
		case <-timer.C:
			if err := s.onTime(time.Now()); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ---- what is sent ----------------------------------------------------------------------------------------------------

func (s *stream) maySend() bool { return s.welcome != nil && s.credit > 0 }

// hello is free.
func (s *stream) hello() {
	config := &s.client.config
	s.number++
	s.next = &feedpb.SenderMessage{Number: s.number, Body: &feedpb.SenderMessage_Hello{Hello: &feedpb.Hello{
		VersionMin: version, VersionMax: version, Sender: config.Sender, Changefeed: config.Changefeed, Form: feedpb.Form_FORM_MESSAGES,
	}}}
}

// say makes a message the next one, and counts it.
func (s *stream) say(message *feedpb.SenderMessage) {
	s.number++
	message.Number = s.number
	s.credit -= int64(proto.Size(message))
	s.next = message
}

func (s *stream) batch() {
	messages := s.client.queue.take(int(min(s.welcome.BatchBytes, messageBytesMax)))
	if len(messages) == 0 {
		return
	}
	s.say(&feedpb.SenderMessage{Body: &feedpb.SenderMessage_Messages{Messages: &feedpb.Messages{Messages: messages}}})
	s.batches = append(s.batches, batch{s.number, len(messages)})
}

// ---- what is told ----------------------------------------------------------------------------------------------------

func (s *stream) hear(answer *feedpb.SidecarMessage) error {
	s.heard++
	if answer.Number != s.heard {
		return fmt.Errorf("its message %d came in the place of %d", answer.Number, s.heard)
	}
	switch body := answer.Body.(type) {
	case *feedpb.SidecarMessage_Welcome:
		return s.hearWelcome(body.Welcome)
	case *feedpb.SidecarMessage_Credit:
		s.grant(body.Credit.Bytes)
		return nil
	case *feedpb.SidecarMessage_Kept:
		return s.hearKept(body.Kept.Number)
	default:
		return fmt.Errorf("its message %d is %T, which the form \"messages\" does not have", answer.Number, body)
	}
}

func (s *stream) hearWelcome(welcome *feedpb.Welcome) error {
	if s.welcome != nil {
		return errors.New("it said Welcome twice")
	}
	if welcome.Version != version {
		return &refusal{text: fmt.Sprintf("push: the sidecar at %s speaks version %d of feed.proto, this sink version %d: let both be of one release",
			s.address, welcome.Version, version)}
	}
	s.welcome = welcome
	s.grant(welcome.CreditBytes)
	s.client.config.Logf("push: connected to the sidecar at %s, %d messages wait", s.address, s.client.queue.waiting())
	return nil
}

func (s *stream) grant(bytes uint64) {
	s.credit += int64(min(bytes, uint64(math.MaxInt64-max(s.credit, 0))))
}

func (s *stream) hearKept(number uint64) error {
	if number > s.given {
		return fmt.Errorf("it kept up to message %d, and was sent %d", number, s.given)
	}
	count := 0
	for len(s.batches) > 0 && s.batches[0].number <= number {
		count += s.batches[0].messages
		s.batches = s.batches[1:]
	}
	if count == 0 {
		return nil
	}
	s.kept += count
	for _, call := range s.client.queue.drop(count) {
		if s.client.closed.Err() != nil {
			return s.client.closed.Err()
		}
		call()
	}
	return nil
}

// ---- time ------------------------------------------------------------------------------------------------------------

// beat is when a sign of life is due; false: none is, or it may not be sent.
func (s *stream) beat() (time.Time, bool) {
	if !s.maySend() || s.next != nil || s.welcome.SilentMaxMs == 0 {
		return time.Time{}, false
	}
	silent := time.Duration(min(s.welcome.SilentMaxMs, uint64(never.Milliseconds()))) * time.Millisecond
	return s.spoke.Add(silent / heartbeatPart), true
}

func (s *stream) dueIn(now time.Time) time.Duration {
	due := now.Add(never)
	if s.welcome == nil {
		due = s.began.Add(welcomeMax)
	}
	if beat, is := s.beat(); is && beat.Before(due) {
		due = beat
	}
	if since, some := s.client.queue.stuckSince(); some && since.Add(s.client.config.OutageMax).Before(due) {
		due = since.Add(s.client.config.OutageMax)
	}
	return max(due.Sub(now), 0)
}

func (s *stream) onTime(now time.Time) error {
	if s.client.outage() {
		return s.client.noneTakes(errors.New("connected to " + s.address))
	}
	if s.welcome == nil && now.Sub(s.began) >= welcomeMax {
		return fmt.Errorf("no Welcome came within %s", welcomeMax)
	}
	if beat, is := s.beat(); is && !now.Before(beat) {
		s.say(&feedpb.SenderMessage{Body: &feedpb.SenderMessage_Heartbeat{Heartbeat: &feedpb.Heartbeat{}}})
	}
	return nil
}
