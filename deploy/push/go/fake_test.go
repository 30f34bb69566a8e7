package push

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ticdcdump/push/feedpb"
)

const patience = 120 * time.Second

// sidecar is a fake one: it answers each stream by its script, checks what any sidecar would, and remembers what came.
type sidecar struct {
	feedpb.UnimplementedKvFeedServer
	address string
	script  func(*talk) error
	server  *grpc.Server

	mu      sync.Mutex
	streams []*talk
	faults  []string // of the sender: no test has any
}

// talk is one stream as the fake sidecar sees it.
type talk struct {
	sidecar  *sidecar
	stream   feedpb.KvFeed_PushServer
	at       int // of the streams, from 0
	metadata metadata.MD
	hello    *feedpb.Hello
	heard    uint64
	told     uint64
	credit   int64

	silentMaxMs uint64

	mu   sync.Mutex
	came []*feedpb.TopicMessage
}

func startSidecar(t testing.TB, script func(*talk) error, options ...grpc.ServerOption) *sidecar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, grpc.MaxRecvMsgSize(messageBytesMax), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second}))
	s := &sidecar{address: listener.Addr().String(), script: script, server: grpc.NewServer(options...)}
	feedpb.RegisterKvFeedServer(s.server, s)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.server.Serve(listener) }()
	t.Cleanup(func() {
		s.server.Stop()
		<-served
		for _, fault := range s.faults {
			t.Error(fault)
		}
	})
	return s
}

func (s *sidecar) fault(code codes.Code, format string, arguments ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, arguments...))
	return status.Errorf(code, format, arguments...)
}

func (s *sidecar) Push(stream feedpb.KvFeed_PushServer) error {
	found, _ := metadata.FromIncomingContext(stream.Context())
	s.mu.Lock()
	k := &talk{sidecar: s, stream: stream, at: len(s.streams), metadata: found, silentMaxMs: 60_000}
	s.streams = append(s.streams, k)
	s.mu.Unlock()
	return s.script(k)
}

func (s *sidecar) talks() []*talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*talk(nil), s.streams...)
}

// values are all that came, stream after stream.
func (s *sidecar) values() []string {
	var found []string
	for _, k := range s.talks() {
		found = append(found, k.values()...)
	}
	return found
}

func (k *talk) messages() []*feedpb.TopicMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*feedpb.TopicMessage(nil), k.came...)
}

// forget is for tests of many.
func (k *talk) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.came = nil
}

func (k *talk) values() []string {
	var found []string
	for _, message := range k.messages() {
		found = append(found, string(message.Value))
	}
	return found
}

// silent waits for what the sender may do only after it, and answers a fault if a message comes before. hear has the message then.
func (k *talk) silent(until <-chan struct{}) (hear func() error, err error) {
	received := make(chan error, 1)
	go func() { _, err := k.hear(); received <- err }()
	select {
	case <-received:
		return nil, k.sidecar.fault(codes.InvalidArgument, "a message came that was not allowed yet")
	case <-until:
		return func() error { return <-received }, nil
	}
}

// hear is the sender's next message, judged: its number, and that there was credit for it.
func (k *talk) hear() (*feedpb.SenderMessage, error) {
	message, err := k.stream.Recv()
	if err != nil {
		return nil, err
	}
	k.heard++
	if message.Number != k.heard {
		return nil, k.sidecar.fault(codes.DataLoss, "message %d came in the place of %d", message.Number, k.heard)
	}
	if k.hello != nil {
		if k.credit <= 0 {
			return nil, k.sidecar.fault(codes.ResourceExhausted, "%d bytes came without credit", proto.Size(message))
		}
		k.credit -= int64(proto.Size(message))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.came = append(k.came, message.GetMessages().GetMessages()...)
	return message, nil
}

func (k *talk) greet() error {
	message, err := k.hear()
	if err != nil {
		return err
	}
	if k.hello = message.GetHello(); k.hello == nil {
		return status.Error(codes.InvalidArgument, "no Hello")
	}
	return nil
}

func (k *talk) tell(message *feedpb.SidecarMessage) error {
	k.told++
	message.Number = k.told
	return k.stream.Send(message)
}

func (k *talk) welcome(credit int64, batchBytes uint64) error {
	k.credit += credit
	return k.tell(&feedpb.SidecarMessage{Body: &feedpb.SidecarMessage_Welcome{Welcome: &feedpb.Welcome{
		Version: version, CreditBytes: uint64(credit), BatchBytes: batchBytes, SilentMaxMs: k.silentMaxMs,
	}}})
}

func (k *talk) keep(number uint64) error {
	return k.tell(&feedpb.SidecarMessage{Body: &feedpb.SidecarMessage_Kept{Kept: &feedpb.Kept{Number: number}}})
}

func (k *talk) grant(bytes int64) error {
	k.credit += bytes
	return k.tell(&feedpb.SidecarMessage{Body: &feedpb.SidecarMessage_Credit{Credit: &feedpb.Credit{Bytes: uint64(bytes)}}})
}

// serve is what a sidecar in good health does: it keeps each message as it comes, and grants anew what it cost.
func (k *talk) serve() error {
	for {
		message, err := k.hear()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := k.keep(message.Number); err != nil {
			return err
		}
		if err := k.grant(int64(proto.Size(message))); err != nil {
			return err
		}
	}
}

func healthy(k *talk) error {
	if err := k.greet(); err != nil {
		return err
	}
	if err := k.welcome(1<<20, 1<<16); err != nil {
		return err
	}
	return k.serve()
}

// ---- the client under test ---------------------------------------------------------------------------------------------

func configFor(t testing.TB, addresses ...string) Config {
	return Config{Addresses: addresses, Changefeed: "default/default/test", Sender: "tester", Logf: t.Logf}
}

// running starts Run; the channel has what it returned. The client is closed, and its end awaited, when the test ends.
func running(t testing.TB, config Config) (*Client, <-chan error) {
	t.Helper()
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	client.pauseFirst, client.pauseMax = time.Millisecond, 50*time.Millisecond
	ended, over := make(chan error, 1), make(chan struct{})
	go func() { defer close(over); ended <- client.Run(context.Background()) }()
	t.Cleanup(func() { client.Close(); <-over })
	return client, ended
}

func buffered(client *Client) int64 {
	client.queue.mu.Lock()
	defer client.queue.mu.Unlock()
	return client.queue.bytes
}

// refusing is an address that a standby has while it does not listen: bound, so that nobody else gets it, and refusing connections.
func refusing(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

func message(value string) Message { return Message{Topic: "orders", Value: []byte(value)} }

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// order notes the callbacks as they come.
type order struct {
	mu   sync.Mutex
	kept []string
}

func (o *order) of(value string) func() {
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.kept = append(o.kept, value)
	}
}

func (o *order) values() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.kept...)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it never came to be: %s", what)
		}
	}
}

func result(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("Run did not end")
		return nil
	}
}

func numbered(count int) []string {
	values := make([]string, count)
	for at := range values {
		values[at] = fmt.Sprintf("value %d", at)
	}
	return values
}

func equal(t *testing.T, what string, found, expected []string) {
	t.Helper()
	if strings.Join(found, "|") != strings.Join(expected, "|") {
		t.Fatalf("%s: found %d: %.400q\nexpected %d: %.400q", what, len(found), found, len(expected), expected)
	}
}

// ours counts the goroutines that run this package's client or gRPC's.
func ours() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	count := 0
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "push.(*Client)") || strings.Contains(stack, "push.receive") || strings.Contains(stack, "push.send") ||
			strings.Contains(stack, "google.golang.org/grpc") {
			count++
		}
	}
	return count
}
