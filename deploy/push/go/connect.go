package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ticdcdump/push/feedpb"
)

const (
	connectMax       = 5 * time.Second  // an address that does not answer makes the next one wait for so long
	keepaliveEvery   = 10 * time.Second // the sidecar allows no more often
	keepaliveTimeout = 20 * time.Second
	distrustMax      = 3
)

// connection is what a try came to. distrust is nil where nothing is known of any.
type connection struct {
	welcomed bool
	kept     int
	distrust *distrust
}

// connect opens a stream to one address and stays until it ends; the error says how. Nothing of it is left then.
func (c *Client) connect(ctx context.Context, address string) (connection, error) {
	if c.config.TLS == nil {
		return c.over(ctx, address, insecure.NewCredentials())
	}
	transport := newSecure(c.config.TLS)
	found, err := c.over(ctx, address, transport)
	found.distrust = transport.distrust.Load()
	return found, err
}

func (c *Client) over(ctx context.Context, address string, transport credentials.TransportCredentials) (connection, error) {
	network, err := grpc.NewClient("passthrough:///"+address, options(transport)...)
	if err != nil {
		return connection{}, err
	}
	defer network.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if c.config.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.config.Token)
	}
	call, err := feedpb.NewKvFeedClient(network).Push(ctx)
	if err != nil {
		return connection{}, err
	}
	answers, out := make(chan *feedpb.SidecarMessage), make(chan *feedpb.SenderMessage)
	var both sync.WaitGroup
	both.Add(2)
	go func() { defer both.Done(); receive(ctx, end, call, answers) }()
	go func() { defer both.Done(); send(end, call, out) }()
	now := time.Now()
	stream := &stream{client: c, address: address, began: now, spoke: now}
	err = stream.converse(ctx, answers, out)
	end(nil)
	close(out)
	both.Wait()
	return connection{welcomed: stream.welcome != nil, kept: stream.kept}, err
}

func options(transport credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(messageBytesMax), grpc.MaxCallRecvMsgSize(messageBytesMax)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectMax}),
		grpc.WithDisableRetry(),
	}
}

// receive hands each answer over before it says how the stream ended.
func receive(ctx context.Context, end context.CancelCauseFunc, call feedpb.KvFeed_PushClient, answers chan<- *feedpb.SidecarMessage) {
	for {
		answer, err := call.Recv()
		if errors.Is(err, io.EOF) {
			err = errors.New("it ended the stream")
		}
		if err != nil {
			end(err)
			return
		}
		select {
		case answers <- answer:
		case <-ctx.Done():
			return
		}
	}
}

// send waits where the network does, so that Run need not: what is kept meanwhile is heard.
func send(end context.CancelCauseFunc, call feedpb.KvFeed_PushClient, out <-chan *feedpb.SenderMessage) {
	for message := range out {
		if err := call.Send(message); err != nil {
			if !errors.Is(err, io.EOF) { // EOF: Recv has the reason
				end(err)
			}
			return
		}
	}
}

// refusal is an end after which trying again would end in the same way. text says why and what to do.
type refusal struct {
	text  string
	cause error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }

// remedies are of the codes after which feed.proto says stop.
var remedies = map[codes.Code]string{
	codes.FailedPrecondition: `compare its changefeed, its release and its setting push.form ("messages") with this sink's`,
	codes.Unauthenticated:    "give this sink the token of the sidecar's push.token_file",
	codes.InvalidArgument:    "it does not understand this sink: let both be of one release",
	codes.Unimplemented:      "what listens there is no push feed: compare the address with the sidecar's push.listen",
}

// distrusted is the error of a connection without trust, or the one that it ended with. What is not sure counts when it was so distrustMax
// times without a Welcome between: a sidecar that dies at that moment looks the same.
func (c *Client) distrusted(address string, found connection, times *int, err error) error {
	switch {
	case found.welcomed:
		*times = 0
		return err
	case found.distrust == nil:
		return err
	}
	*times++
	failed := fmt.Errorf("no TLS with it: %s", found.distrust.text)
	if found.distrust.sure || *times >= distrustMax {
		return &refusal{fmt.Sprintf("push: the sidecar at %s: %s", address, failed), err}
	}
	return failed
}

// final is the error to end with, or nil if trying again may help.
func final(address string, err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused
	}
	if remedy, is := remedies[status.Code(err)]; is {
		return &refusal{fmt.Sprintf("push: the sidecar at %s refuses: %s; %s", address, text(err), remedy), err}
	}
	return nil
}

// text is an error for people, on one line.
func text(err error) string {
	said := err.Error()
	if found, is := status.FromError(err); is {
		said = fmt.Sprintf("%s: %s", found.Code(), found.Message())
	}
	lines := strings.Split(said, "\n") // the sidecar's hint is a line of its own
	for at := range lines {
		lines[at] = strings.TrimSpace(lines[at])
	}
	return strings.Join(lines, "; ")
}
