package ticdcdump_test

// Both architectures' tests have this file: the sidecar, a fake one or one that runs.

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"ticdcdump/push/feedpb"
)

const patience = 120 * time.Second

// running is the address of a sidecar of the changefeed default/default/test that is to be sent to; empty: a fake one is.
func running() string { return os.Getenv("TICDC_DUMP_PUSH_ADDRESS") }

// sidecar is a fake one. It keeps everything once keep was called, and nothing before.
type sidecar struct {
	feedpb.UnimplementedKvFeedServer
	address string
	refusal error // what it answers to Hello, if anything
	keeping chan struct{}

	mu     sync.Mutex
	hellos []*feedpb.Hello
	came   []*feedpb.TopicMessage
}

func startSidecar(t *testing.T, refusal error) *sidecar {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &sidecar{address: listener.Addr().String(), refusal: refusal, keeping: make(chan struct{})}
	server, served := grpc.NewServer(), make(chan struct{})
	feedpb.RegisterKvFeedServer(server, s)
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return s
}

// keep is to be called once.
func (s *sidecar) keep() { close(s.keeping) }

func (s *sidecar) said() []*feedpb.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*feedpb.Hello(nil), s.hellos...)
}

func (s *sidecar) messages() []*feedpb.TopicMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*feedpb.TopicMessage(nil), s.came...)
}

func (s *sidecar) Push(stream feedpb.KvFeed_PushServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.hellos = append(s.hellos, first.GetHello())
	s.mu.Unlock()
	if s.refusal != nil {
		return s.refusal
	}
	welcome := &feedpb.Welcome{Version: 2, CreditBytes: 1 << 20, BatchBytes: 1 << 16, SilentMaxMs: 60_000}
	if err := stream.Send(&feedpb.SidecarMessage{Number: 1, Body: &feedpb.SidecarMessage_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	heard, told := make(chan *feedpb.SenderMessage, 1<<10), make(chan struct{})
	go func() {
		defer close(told)
		s.answer(ctx, stream, heard)
	}()
	defer func() {
		cancel()
		<-told
	}()
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.came = append(s.came, message.GetMessages().GetMessages()...)
		s.mu.Unlock()
		heard <- message
	}
}

func (s *sidecar) answer(ctx context.Context, stream feedpb.KvFeed_PushServer, heard <-chan *feedpb.SenderMessage) {
	select {
	case <-s.keeping:
	case <-ctx.Done():
		return
	}
	for number := uint64(2); ; number += 2 {
		select {
		case message := <-heard:
			kept, credit := &feedpb.Kept{Number: message.Number}, &feedpb.Credit{Bytes: uint64(proto.Size(message))}
			_ = stream.Send(&feedpb.SidecarMessage{Number: number, Body: &feedpb.SidecarMessage_Kept{Kept: kept}})
			_ = stream.Send(&feedpb.SidecarMessage{Number: number + 1, Body: &feedpb.SidecarMessage_Credit{Credit: credit}}) // Recv tells a broken stream
		case <-ctx.Done():
			return
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, 10*time.Millisecond, what)
}

// wrong are parameters of the URI that no changefeed is made with, and what the error says.
var wrong = map[string]string{
	"ticdc-dump://127.0.0.1:8312?protocol=open-protocol":                                  "no topic is specified",
	"ticdc-dump://127.0.0.1/orders?protocol=open-protocol":                                "is not host:port",
	"ticdc-dump://127.0.0.1:8312/orders?protocol=open-protocol&partition-num=0":           "invalid partition num",
	"ticdc-dump://127.0.0.1:8312/orders?protocol=open-protocol&token-file=/none/at/all":   "no such file",
	"ticdc-dump://127.0.0.1:8312/orders?protocol=open-protocol&cert=/cert&key=/key":       "cert and key without ca",
	"ticdc-dump://127.0.0.1:8312/orders?protocol=open-protocol&kafka-version=2.4.0":       "kafka-version is of Kafka's brokers",
	"ticdc-dump://127.0.0.1:8312/orders?protocol=open-protocol&insecure-skip-verify=true": "insecure-skip-verify is of Kafka's brokers",
	"ticdc-dump://sidecar:8312/orders?protocol=open-protocol&token-file=" + os.Args[0]:    "in plain text",
}
