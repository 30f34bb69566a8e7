package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ticdcdump/push"
	"ticdcdump/push/feedpb"
)

const demo = "../../../../../tests/recordings/demo"

func TestARecordingIsReadAsItIs(t *testing.T) {
	for feed, expected := range map[string][]int{"open-protocol": {265, 59, 1829202, 59, 59, 3245, 223, 59, 486720}, "canal-json": {1827, 60, 2153207, 60, 60, 13860, 1198, 60, 584833}} {
		lanes, err := read(demo, feed)
		if err != nil {
			t.Fatal(err)
		}
		for partition, lane := range lanes {
			marks, bytes := 0, 0
			for at, message := range lane {
				if message.offset != int64(at) || message.Partition != int32(partition) || message.ts == 0 || message.Topic != "demo-0329-"+feed {
					t.Fatalf("%s, partition %d, at %d: %+v", feed, partition, at, message)
				}
				if (message.Key == nil) != (feed == "canal-json" && message.mark) || (feed == "canal-json" && len(message.Key) > 0) {
					t.Fatalf("%s: the key is %q", feed, message.Key)
				}
				bytes += len(message.Key) + len(message.Value)
				if message.mark {
					marks++
				}
			}
			if found := [3]int{len(lane), marks, bytes}; found != [3]int(expected[3*partition:3*partition+3]) {
				t.Errorf("%s, partition %d: messages, marks and bytes are %v", feed, partition, found)
			}
		}
	}
}

func TestWhatIsNoPlayableRecordingIsRefused(t *testing.T) {
	folder := t.TempDir()
	written := `{"feeds": {"simple": {"kind": "kafka", "sink_uri": "kafka://k:1/t?protocol=simple&partition-num=1", "file": "f"},
		"bare": {"kind": "kafka", "sink_uri": "kafka://k:1/t?protocol=canal-json", "file": "f"}, "files": {"kind": "storage"}}}`
	if err := os.WriteFile(filepath.Join(folder, "recording.json"), []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	for feed, says := range map[string]string{"simple": `"simple"; expected`, "bare": "partition-num", "files": "no Kafka", "other": "no Kafka"} {
		if _, err := read(folder, feed); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", feed, err)
		}
	}
}

// keeper keeps what it gets after a while that a seed chooses, as one of several senders.
type keeper struct {
	line *oneOrder
}

// oneOrder is what a sidecar has: all that senders sent, in one order; waiting is what it has not kept.
type oneOrder struct {
	mu      sync.Mutex
	random  *rand.Rand
	came    []push.Message
	waiting []func()
}

func (k keeper) Send(_ context.Context, message push.Message, kept func()) error {
	k.line.mu.Lock()
	defer k.line.mu.Unlock()
	k.line.came = append(k.line.came, message)
	k.line.waiting = append(k.line.waiting, kept)
	return nil
}

func (o *oneOrder) keepSome() {
	o.mu.Lock()
	count := o.random.IntN(len(o.waiting) + 1)
	calls := o.waiting[:count]
	o.waiting = o.waiting[count:]
	o.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

func TestAMarkFollowsAllThatItCoversInTheSidecarsOrder(t *testing.T) {
	for _, feed := range []string{"open-protocol", "canal-json"} {
		lanes, err := read(demo, feed)
		if err != nil {
			t.Fatal(err)
		}
		line := &oneOrder{random: rand.New(rand.NewPCG(1, 2))}
		done := make(chan error, 1)
		go func() {
			_, err := play(context.Background(), lanes, []sender{keeper{line}, keeper{line}})
			done <- err
		}()
		for over := false; !over; {
			select {
			case err = <-done:
				over = true
			default:
				line.keepSome()
			}
		}
		if err != nil || len(line.waiting) > 0 {
			t.Fatalf("%v; %d were not waited for", err, len(line.waiting))
		}
		judge(t, lanes, line.came)
	}
}

// judge: each partition's messages in their order, and after a mark of whichever partition nothing that it covers.
func judge(t *testing.T, lanes [][]recorded, came []push.Message) {
	t.Helper()
	next, resolved, total := make([]int, len(lanes)), uint64(0), 0
	for _, message := range came {
		lane := lanes[message.Partition]
		expected := lane[next[message.Partition]]
		if !bytes.Equal(expected.Key, message.Key) || !bytes.Equal(expected.Value, message.Value) {
			t.Fatalf("partition %d has another message at %d", message.Partition, next[message.Partition])
		}
		next[message.Partition]++
		if expected.mark {
			resolved = max(resolved, expected.ts)
		} else if expected.ts <= resolved {
			t.Fatalf("partition %d, offset %d of %d came after the mark %d", message.Partition, expected.offset, expected.ts, resolved)
		}
	}
	for _, lane := range lanes {
		total += len(lane)
	}
	if len(came) != total {
		t.Fatalf("%d of %d came", len(came), total)
	}
}

// sidecar keeps everything, and wants a token.
type sidecar struct {
	feedpb.UnimplementedKvFeedServer
	mu       sync.Mutex
	messages map[string]int
}

func (s *sidecar) Push(stream feedpb.KvFeed_PushServer) error {
	found, _ := metadata.FromIncomingContext(stream.Context())
	if token := found.Get("authorization"); len(token) != 1 || token[0] != "Bearer secret" {
		return status.Error(codes.Unauthenticated, "no token")
	}
	number, name := uint64(0), ""
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		number++
		answer := &feedpb.SidecarMessage{Number: number, Body: &feedpb.SidecarMessage_Kept{Kept: &feedpb.Kept{Number: message.Number}}}
		if hello := message.GetHello(); hello != nil {
			name = hello.Sender
			answer.Body = &feedpb.SidecarMessage_Welcome{Welcome: &feedpb.Welcome{Version: 2, CreditBytes: 1 << 40, BatchBytes: 1 << 16, SilentMaxMs: 60_000}}
		}
		s.mu.Lock()
		s.messages[name] += len(message.GetMessages().GetMessages())
		s.mu.Unlock()
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func TestTheCommandEndsWhenAllIsKeptOrRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, keeps := grpc.NewServer(), &sidecar{messages: map[string]int{}}
	feedpb.RegisterKvFeedServer(server, keeps)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"--to", listener.Addr().String(), "--changefeed", "default/default/demo", "--recording", demo, "--senders", "2"}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	if err := command(ctx, arguments, &out, &log); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("without a token: %v", err)
	}
	if err := command(ctx, append(arguments, "--token-file", token), &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	lanes, err := read(demo, "open-protocol")
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]int{"send-recording-0": len(lanes[0]) + len(lanes[2]), "send-recording-1": len(lanes[1])}
	keeps.mu.Lock()
	defer keeps.mu.Unlock()
	if fmt.Sprint(keeps.messages) != fmt.Sprint(expected) || !strings.HasPrefix(out.String(), fmt.Sprintf("kept: %d messages", len(lanes[0])+len(lanes[1])+len(lanes[2]))) {
		t.Fatalf("%v came, expected %v; %s", keeps.messages, expected, &out)
	}
}

func TestFlagsThatCannotBeAreRefused(t *testing.T) {
	for says, arguments := range map[string][]string{
		"--recording": {},
		"at least 1":  {"--recording", demo, "--senders", "0"},
		"go together": {"--recording", demo, "--cert", "c"},
		"no flag":     {"--recording", demo, "more"},
		"not {clust":  {"--recording", demo},
	} {
		var out, log bytes.Buffer
		err := command(context.Background(), arguments, &out, &log)
		if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", arguments, err)
		}
	}
}
