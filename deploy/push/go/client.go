// Package push sends what a TiCDC sink would give to Kafka to ticdc-dump's sidecar: the sending half of the push feed in its form
// "messages" (proto/ticdc_dump/v1/feed.proto, which binds).
//
//   - Messages leave in the order of Send, over one stream at a time. What was not kept when a stream broke is sent again in the next,
//     first and in order: the sidecar may have a message twice, never late and never not at all.
//   - kept is the only permission to forget. It is called once a message, in order.
//   - A resolved mark or a DDL is sent when all that it covers is kept, of whichever client: that is for the caller to see to.
//
// It knows nothing of TiCDC, and is one package with its stubs below it, so that it can be compiled inside another module.
package push

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"ticdcdump/push/feedpb"
)

const (
	bufferBytesDefault = 64 << 20
	outageDefault      = 10 * time.Minute
	pauseFirst         = 100 * time.Millisecond
	pauseMax           = 5 * time.Second
	messageBytesMax    = 256 << 20 // of one SenderMessage: the sidecar takes no larger one
	envelopeBytesMax   = 32        // of a SenderMessage around its messages: tags, lengths and the number
	itemBytes          = 128       // what a message takes of memory besides its own bytes, about
	nameBytesMax       = 255       // as the sidecar has it
)

// ErrClosed is what Send answers after Close.
var ErrClosed = errors.New("push: the client is closed")

// Config says to whom is sent, as whom, and how much may wait.
type Config struct {
	Addresses      []string                         // host:port of all sidecars of the changefeed: its owner alone listens, they are tried in turn
	Changefeed     string                           // {cluster id}/{namespace}/{changefeed id}
	Sender         string                           // for people: a capture id or an advertise address, at most 255 bytes; "": the host's name
	TLS            *tls.Config                      // nil: plain text
	Token          string                           // of the sidecar's push.token_file; "": none
	BufferBytesMax int64                            // of messages not yet kept; 0: 64 MiB. One that is larger alone waits until nothing else does
	OutageMax      time.Duration                    // nothing is kept for so long while some wait: Run ends with an error; 0: 10 min
	Logf           func(format string, args ...any) // one line each time that a connection comes or goes; nil: silent
}

// Message is what a producer of Kafka would get. A nil key or value is absent, an empty one is there.
type Message struct {
	Topic      string
	Partition  int32
	Key, Value []byte
}

// Client sends to one changefeed's sidecar. Its methods may be called from any goroutine.
type Client struct {
	config Config
	queue  *queue
	closed context.Context
	cancel context.CancelFunc
	ran    atomic.Bool

	pauseFirst, pauseMax time.Duration
}

// New checks the settings, and connects to nobody.
func New(config Config) (*Client, error) {
	if config.BufferBytesMax == 0 {
		config.BufferBytesMax = bufferBytesDefault
	}
	if config.OutageMax == 0 {
		config.OutageMax = outageDefault
	}
	if config.Sender == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("push: no sender is given, and the host has no name: %w", err)
		}
		config.Sender = host
	}
	if config.Logf == nil {
		config.Logf = func(string, ...any) {}
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	closed, cancel := context.WithCancel(context.Background())
	return &Client{
		config: config, queue: newQueue(config.BufferBytesMax), closed: closed, cancel: cancel, pauseFirst: pauseFirst, pauseMax: pauseMax,
	}, nil
}

func (config *Config) check() error {
	if len(config.Addresses) == 0 {
		return errors.New("push: no address; give host:port of every sidecar of the changefeed")
	}
	for _, address := range config.Addresses {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return fmt.Errorf("push: the address %q is not host:port", address)
		}
	}
	parts := strings.Split(config.Changefeed, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" || !utf8.ValidString(config.Changefeed) {
		return fmt.Errorf("push: the changefeed %q is not {cluster id}/{namespace}/{changefeed id}", config.Changefeed)
	}
	if len(config.Sender) > nameBytesMax || !utf8.ValidString(config.Sender) {
		return fmt.Errorf("push: the sender's name %q is no text of at most %d bytes", config.Sender, nameBytesMax)
	}
	for _, char := range []byte(config.Token) {
		if char <= ' ' || char > '~' {
			return errors.New("push: the token has a character that is not printable ASCII; is there a line end in it?")
		}
	}
	if config.BufferBytesMax < 0 || config.OutageMax < 0 {
		return fmt.Errorf("push: BufferBytesMax (%d) and OutageMax (%s) are not below 0", config.BufferBytesMax, config.OutageMax)
	}
	return nil
}

// Send puts a message behind all before it, and waits while the buffer is full. kept (may be nil) is called from Run's goroutine when the
// message is durable in the sidecar; it must not wait for Send. The key and value are the client's until then. An error says that
// the message was not taken: ctx's, that it is too large or has no proper topic, or why the client has ended.
func (c *Client) Send(ctx context.Context, message Message, kept func()) error {
	sent := &feedpb.TopicMessage{Topic: message.Topic, Partition: message.Partition, Key: message.Key, Value: message.Value}
	if !utf8.ValidString(message.Topic) {
		return fmt.Errorf("push: the topic %q is not UTF-8", message.Topic)
	}
	size := proto.Size(sent)
	if size > messageBytesMax-envelopeBytesMax {
		return fmt.Errorf("push: a message for topic %s has %d bytes, the sidecar takes %d at most", message.Topic, size, messageBytesMax-envelopeBytesMax)
	}
	return c.queue.put(ctx, item{message: sent, size: size, kept: kept})
}

// SendAndWait returns when all are kept. After an error some may be, and the others may still come to be if ctx ended it.
func (c *Client) SendAndWait(ctx context.Context, messages ...Message) error {
	if len(messages) == 0 {
		return nil
	}
	kept := make(chan struct{})
	for at, message := range messages {
		var call func()
		if at == len(messages)-1 {
			call = func() { close(kept) } // in order: so are all before it
		}
		if err := c.Send(ctx, message, call); err != nil {
			return err
		}
	}
	select {
	case <-kept:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.queue.ended:
		return c.queue.why()
	}
}

// Close ends Run, and waits for nothing: once Run has returned, nothing of the client is left. What was not kept is not called back.
func (c *Client) Close() {
	c.queue.end(ErrClosed)
	c.cancel()
}

// Run connects, sends, and sends again, until ctx is done or Close is called (then it returns the context's error), or there is no
// use in going on: the sidecar refused for good, or nothing was kept for OutageMax. To be called once.
func (c *Client) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return errors.New("push: Run was called before; a client runs once")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)()
	c.queue.moved()
	err := c.run(ctx)
	c.queue.end(fmt.Errorf("push: the client has ended: %w", err))
	return err
}

// run tries the addresses in turn, the one that was connected last first. It pauses when it has been to all of them.
func (c *Client) run(ctx context.Context) error {
	pause, told, failed, strange := c.pauseFirst, "", 0, 0
	for at := 0; ; {
		address, began := c.config.Addresses[at%len(c.config.Addresses)], time.Now()
		found, err := c.connect(ctx, address)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = c.distrusted(address, found, &strange, err)
		if final := final(address, err); final != nil {
			return final
		}
		if text := fmt.Sprintf("push: the sidecar at %s: %s", address, text(err)); text != told || found.welcomed {
			c.config.Logf("%s; trying again, %d messages wait", text, c.queue.waiting())
			told = text
		}
		if found.welcomed {
			failed = 0
		} else {
			failed++
			at++
		}
		if found.kept > 0 || (found.welcomed && time.Since(began) > c.pauseMax) {
			pause = c.pauseFirst
		}
		if failed%len(c.config.Addresses) == 0 {
			if err := c.rest(ctx, pause/2+rand.N(pause/2+1)); err != nil {
				return err
			}
			pause = min(2*pause, c.pauseMax)
		}
		if c.outage() {
			return c.noneTakes(err)
		}
	}
}

func (c *Client) rest(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (c *Client) outage() bool {
	since, some := c.queue.stuckSince()
	return some && time.Since(since) >= c.config.OutageMax
}

func (c *Client) noneTakes(last error) error {
	return &refusal{fmt.Sprintf("push: no sidecar kept anything for %s while %d messages wait (%s): see that one of %s runs and owns the changefeed",
		c.config.OutageMax, c.queue.waiting(), text(last), strings.Join(c.config.Addresses, ", ")), last}
}
