package push

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ticdcdump/push/feedpb"
)

func TestAllArrivesInOrderAndIsCalledBackOnceInOrder(t *testing.T) {
	sidecar := startSidecar(t, healthy)
	client, _ := running(t, configFor(t, sidecar.address))
	values, kept := numbered(5000), &order{}
	for _, value := range values {
		if err := client.Send(patient(t), message(value), kept.of(value)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are kept", func() bool { return len(kept.values()) >= len(values) })
	equal(t, "kept", kept.values(), values)
	equal(t, "came", sidecar.values(), values)
	if found := buffered(client); found != 0 {
		t.Fatalf("%d bytes wait when all is kept", found)
	}
	hello := sidecar.talks()[0].hello
	if hello.VersionMin != 2 || hello.VersionMax != 2 || hello.Form != feedpb.Form_FORM_MESSAGES || hello.Sender != "tester" ||
		hello.Changefeed != "default/default/test" {
		t.Fatalf("Hello is %v", hello)
	}
}

func TestAMessageArrivesAsItWasGiven(t *testing.T) {
	sidecar := startSidecar(t, healthy)
	client, _ := running(t, configFor(t, sidecar.address))
	sent := []Message{
		{Topic: "orders", Partition: 7, Key: []byte{0, 1, 255}, Value: []byte("value")},
		{Topic: "orders", Key: nil, Value: []byte{}},
		{Topic: "", Partition: -1, Key: []byte{}, Value: nil},
	}
	if err := client.SendAndWait(patient(t), sent...); err != nil {
		t.Fatal(err)
	}
	for at, came := range sidecar.talks()[0].messages() {
		expected := &feedpb.TopicMessage{Topic: sent[at].Topic, Partition: sent[at].Partition, Key: sent[at].Key, Value: sent[at].Value}
		if !proto.Equal(came, expected) || (came.Key == nil) != (sent[at].Key == nil) || (came.Value == nil) != (sent[at].Value == nil) {
			t.Fatalf("%d came as %v", at, came)
		}
	}
}

// A sidecar that keeps a part, dies, comes back, tells or does not tell what it kept: whatever it does, each stream begins with what
// follows the last message that the client was told is kept, or before it, and goes on in order.
func TestNothingIsLostWhateverDies(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var lock sync.Mutex
		draw := func(n int) int { lock.Lock(); defer lock.Unlock(); return random.IntN(n) }
		sidecar := startSidecar(t, func(k *talk) error {
			if err := k.greet(); err != nil {
				return err
			}
			k.silentMaxMs = 30 // signs of life are among what it hears, when all is sent and not all kept
			if err := k.welcome(int64(200+draw(2000)), uint64(draw(400))); err != nil {
				return err
			}
			for left := draw(12); k.at > 8 || left > 0; left-- {
				received, err := k.hear()
				if err != nil {
					return err
				}
				if k.at > 8 || draw(2) == 0 {
					if err := k.keep(received.Number); err != nil {
						return err
					}
				}
				if err := k.grant(int64(proto.Size(received))); err != nil {
					return err
				}
			}
			return status.Error([]codes.Code{codes.Unavailable, codes.DataLoss, codes.ResourceExhausted, codes.DeadlineExceeded,
				codes.Aborted, codes.Unknown, codes.OK}[draw(7)], "it died")
		})
		client, _ := running(t, configFor(t, sidecar.address))
		values, kept := numbered(300), &order{}
		for _, value := range values {
			if err := client.Send(patient(t), message(value), kept.of(value)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all are kept", func() bool { return len(kept.values()) >= len(values) })
		equal(t, "kept", kept.values(), values)
		judgeStreams(t, seed, sidecar, values)
		client.Close()
	}
}

// judgeStreams: each stream has a run of values without holes, which begins where the ones before it came to at most; together they have all.
func judgeStreams(t *testing.T, seed uint64, sidecar *sidecar, values []string) {
	t.Helper()
	place := map[string]int{}
	for at, value := range values {
		place[value] = at
	}
	reached := 0
	for _, k := range sidecar.talks() {
		came := k.values()
		for at, value := range came {
			if place[value] != place[came[0]]+at {
				t.Fatalf("seed %d, stream %d: %q came after %q", seed, k.at, value, came[at-1])
			}
		}
		if len(came) == 0 {
			continue
		}
		if place[came[0]] > reached {
			t.Fatalf("seed %d, stream %d begins with %q, but only %d came before", seed, k.at, came[0], reached)
		}
		reached = max(reached, place[came[0]]+len(came))
	}
	if reached != len(values) {
		t.Fatalf("seed %d: %d of %d came", seed, reached, len(values))
	}
}

func TestWhatCameAndWasNotKeptIsSentAgainFirst(t *testing.T) {
	sidecar := startSidecar(t, func(k *talk) error {
		if k.at > 0 {
			return healthy(k)
		}
		if err := k.greet(); err != nil {
			return err
		}
		if err := k.welcome(1<<20, 0); err != nil { // each message alone
			return err
		}
		for range 4 {
			if _, err := k.hear(); err != nil {
				return err
			}
		}
		if err := k.keep(3); err != nil { // Hello is 1: two messages
			return err
		}
		return status.Error(codes.Unavailable, "the sidecar ends its term; connect again")
	})
	client, _ := running(t, configFor(t, sidecar.address))
	kept := &order{}
	for _, value := range numbered(4) {
		if err := client.Send(patient(t), message(value), kept.of(value)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are kept", func() bool { return len(kept.values()) == 4 })
	equal(t, "the second stream", sidecar.talks()[1].values(), numbered(4)[2:])
	equal(t, "kept", kept.values(), numbered(4))
}

func TestASidecarThatKeepsLateHasAllOfItWaitedFor(t *testing.T) {
	keep := make(chan struct{})
	sidecar := startSidecar(t, func(k *talk) error {
		if err := errors.Join(k.greet(), k.welcome(1<<20, 1<<16)); err != nil {
			return err
		}
		for len(k.values()) < 3 {
			if _, err := k.hear(); err != nil {
				return err
			}
		}
		<-keep
		return errors.Join(k.keep(k.heard), k.serve())
	})
	client, _ := running(t, configFor(t, sidecar.address))
	done := make(chan error, 1)
	go func() { done <- client.SendAndWait(patient(t), message("a"), message("b"), message("c")) }()
	eventually(t, "all came", func() bool { return len(sidecar.values()) == 3 })
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	close(keep)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestNothingFollowsHelloBeforeWelcome(t *testing.T) {
	sidecar := startSidecar(t, func(k *talk) error {
		if err := k.greet(); err != nil {
			return err
		}
		k.credit = 1 << 20
		some := make(chan struct{})
		time.AfterFunc(200*time.Millisecond, func() { close(some) }) // who does not wait is slower at times, not always
		hear, err := k.silent(some)
		if err != nil {
			return err
		}
		welcome := &feedpb.Welcome{Version: version, CreditBytes: 1 << 20, BatchBytes: 1 << 16}
		if err := k.tell(&feedpb.SidecarMessage{Body: &feedpb.SidecarMessage_Welcome{Welcome: welcome}}); err != nil {
			return err
		}
		return errors.Join(hear(), k.keep(2), k.serve())
	})
	client, _ := running(t, configFor(t, sidecar.address))
	if err := client.SendAndWait(patient(t), message("a")); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutCreditNothingIsSentAndTheBufferFills(t *testing.T) {
	full := make(chan struct{})
	sidecar := startSidecar(t, func(k *talk) error {
		if err := errors.Join(k.greet(), k.welcome(1, 0)); err != nil { // for one message, which takes it below zero
			return err
		}
		if _, err := k.hear(); err != nil {
			return err
		}
		k.credit += 1 << 20
		hear, err := k.silent(full)
		if err != nil {
			return err
		}
		credit := &feedpb.SidecarMessage_Credit{Credit: &feedpb.Credit{Bytes: 1 << 20}}
		return errors.Join(k.tell(&feedpb.SidecarMessage{Body: credit}), hear(), k.serve())
	})
	config := configFor(t, sidecar.address)
	config.BufferBytesMax = 10 * 200
	client, _ := running(t, config)
	kept, sent := &order{}, 0
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		err := client.Send(ctx, message("value"), kept.of("value"))
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sent++
	}
	if sent == 0 || sent > 20 || buffered(client) > config.BufferBytesMax {
		t.Fatalf("%d were taken, %d bytes wait", sent, buffered(client))
	}
	eventually(t, "one is sent", func() bool { return len(sidecar.values()) == 1 })
	close(full)
	if err := client.SendAndWait(patient(t), message("last")); err != nil {
		t.Fatal(err)
	}
	if found := len(kept.values()); found != sent {
		t.Fatalf("%d of %d are kept", found, sent)
	}
}

func TestABatchIsNoLargerThanWelcomeSaysAndALargerMessageGoesAlone(t *testing.T) {
	var wrong atomic.Value
	var batched atomic.Int64
	ready := make(chan struct{})
	sidecar := startSidecar(t, func(k *talk) error {
		if err := k.greet(); err != nil {
			return err
		}
		<-ready
		if err := k.welcome(1<<30, 1000); err != nil {
			return err
		}
		for {
			received, err := k.hear()
			if err != nil {
				return err
			}
			count := len(received.GetMessages().GetMessages())
			if count > 1 {
				batched.Add(1)
				if proto.Size(received) > 1000 {
					wrong.Store(proto.Size(received))
				}
			}
			if err := k.keep(received.Number); err != nil {
				return err
			}
		}
	})
	client, _ := running(t, configFor(t, sidecar.address))
	var values []string
	for at := range 200 {
		values = append(values, strings.Repeat("x", at*at%1500))
	}
	values = append(values, strings.Repeat("y", 5<<20)) // more than gRPC's usual 4 MB
	for _, value := range values {
		if err := client.Send(patient(t), message(value), nil); err != nil {
			t.Fatal(err)
		}
	}
	close(ready)
	if err := client.SendAndWait(patient(t), message("last")); err != nil {
		t.Fatal(err)
	}
	if wrong.Load() != nil || batched.Load() == 0 {
		t.Fatalf("a batch of %v bytes; %d batches of more than one", wrong.Load(), batched.Load())
	}
	equal(t, "came", sidecar.values(), append(values, "last"))
}

func TestMessagesLargerThanTheSidecarTakesAreRefusedAtOnce(t *testing.T) {
	client, err := New(configFor(t, "127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Send(patient(t), Message{Topic: "orders", Value: make([]byte, messageBytesMax)}, nil); err == nil {
		t.Fatal("it was taken")
	}
	if err := client.Send(patient(t), Message{Topic: "\xff"}, nil); err == nil {
		t.Fatal("a topic that is no text was taken")
	}
}

func TestWhoSendsWhileTheSidecarIsAwayWaitsAtTheBound(t *testing.T) {
	config := configFor(t, refusing(t))
	config.BufferBytesMax = 1 << 16
	client, _ := running(t, config)
	var sent atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for client.Send(ctx, message(strings.Repeat("x", 1000)), nil) == nil {
				sent.Add(1)
			}
		})
	}
	full := int64(config.BufferBytesMax / (1000 + itemBytes + 16))
	eventually(t, "the buffer is full", func() bool { return sent.Load() >= full })
	if found := buffered(client); found > config.BufferBytesMax {
		t.Fatalf("%d bytes wait", found)
	}
	cancel()
	senders.Wait()
}

func TestAMessageLargerThanTheBufferIsTakenWhenNothingElseWaits(t *testing.T) {
	sidecar := startSidecar(t, healthy)
	config := configFor(t, sidecar.address)
	config.BufferBytesMax = 1000
	client, _ := running(t, config)
	large := strings.Repeat("x", 100_000)
	if err := client.SendAndWait(patient(t), message("a"), message(large), message("b"), message(large)); err != nil {
		t.Fatal(err)
	}
	equal(t, "came", sidecar.values(), []string{"a", large, "b", large})
}

// A sidecar is away while TiCDC goes on: what waits is bounded by the buffer and nothing else is held, however often it is connected to. When
// it is back, the stream begins with the first message of each sender that was not called back, and all of them come, each once.
func TestMemoryStaysFlatWhileTheSidecarIsAway(t *testing.T) {
	var lock sync.Mutex
	var first []map[int]int64 // of each stream that has messages, of each sender
	next := map[int]int64{}
	sidecar := startSidecar(t, func(k *talk) error {
		if err := errors.Join(k.greet(), k.welcome(1<<20, 1<<16)); err != nil {
			return err
		}
		begins := map[int]int64{}
		for {
			received, err := k.hear()
			if err != nil {
				return err
			}
			lock.Lock()
			if messages := received.GetMessages().GetMessages(); len(messages) > 0 && len(begins) == 0 {
				first = append(first, begins)
			}
			for _, message := range received.GetMessages().GetMessages() {
				number, at := parsed(t, string(message.Value))
				if _, is := begins[number]; !is {
					begins[number] = at
				} else if at != next[number] {
					t.Errorf("sender %d: message %d came in the place of %d", number, at, next[number])
				}
				next[number] = at + 1
			}
			lock.Unlock()
			k.forget()
			if err := errors.Join(k.keep(received.Number), k.grant(int64(proto.Size(received)))); err != nil {
				return err
			}
		}
	})
	network := startNetwork(t, sidecar.address, 0)
	config := configFor(t, network.address)
	config.BufferBytesMax = 4 << 20
	client, _ := running(t, config)
	before, load := heap(), startLoad(t, client)
	eventually(t, "it flows", func() bool { return total(&load.kept) >= 400 })
	network.lead("")
	eventually(t, "the buffer is full", func() bool { return buffered(client)+loadBytes+itemBytes+16 > config.BufferBytesMax })
	heapStaysBelow(t, before+3*uint64(config.BufferBytesMax), outage(t))
	called := each(&load.kept)
	network.lead(sidecar.address)
	on := total(&load.kept) + 1000
	eventually(t, "it goes on", func() bool { return total(&load.kept) >= on })
	sent := load.finish()
	lock.Lock()
	defer lock.Unlock()
	if len(first) != 2 {
		t.Fatalf("%d streams had messages", len(first))
	}
	for number := range loadSenders {
		if first[1][number] != called[number] || next[number] != sent[number] {
			t.Errorf("sender %d: %d were called back, the next stream begins with %d; %d were sent, %d came", number, called[number],
				first[1][number], sent[number], next[number])
		}
	}
}

// BenchmarkSend is of messages of 300 bytes to a fake sidecar in the same process, until all are kept.
func BenchmarkSend(b *testing.B) {
	sidecar := startSidecar(b, func(k *talk) error { return errors.Join(k.greet(), k.welcome(8<<20, 1<<20), k.serve()) })
	client, _ := running(b, configFor(b, sidecar.address))
	value := strings.Repeat("x", 300)
	b.SetBytes(300)
	for b.Loop() {
		if err := client.Send(context.Background(), message(value), func() {}); err != nil {
			b.Fatal(err)
		}
	}
	if err := client.SendAndWait(context.Background(), message("last")); err != nil {
		b.Fatal(err)
	}
}
