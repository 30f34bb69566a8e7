package ticdcdump

import (
	"context"
	"sync"

	"github.com/pingcap/errors"
	cerror "github.com/pingcap/tiflow/pkg/errors"
	codec "github.com/pingcap/tiflow/pkg/sink/codec/common"

	"ticdcdump/push"
)

// asyncProducer is for rows. A row's callback is called when the sidecar has it durable, not before: TiCDC's checkpoint may move past it then.
type asyncProducer struct{ client *push.Client }

// AsyncSend waits while the client's buffer is full: that holds back the sink, and TiCDC's memory quota what is before it.
func (p *asyncProducer) AsyncSend(ctx context.Context, topic string, partition int32, message *codec.Message) error {
	key := message.Key
	if key == nil {
		key = []byte{} // as TiCDC's own producer has it: a row's key is never null
	}
	err := p.client.Send(ctx, push.Message{Topic: topic, Partition: partition, Key: key, Value: message.Value}, message.Callback)
	return failed(ctx, cerror.ErrKafkaAsyncSendMessage, err)
}

// AsyncRunCallback returns when the sidecars refuse for good, or are away for too long: the changefeed ends with that error, and is tried again.
func (p *asyncProducer) AsyncRunCallback(ctx context.Context) error {
	err := p.client.Run(ctx)
	if ctx.Err() == nil && errors.Cause(err) == context.Canceled {
		return nil // Close was called
	}
	return failed(ctx, cerror.ErrKafkaAsyncSendMessage, err)
}

func (p *asyncProducer) Close() { p.client.Close() }

// syncProducer is for DDLs and resolved marks, which the changefeed's owner sends. It connects with its first message.
type syncProducer struct {
	ctx    context.Context
	client *push.Client
	begin  sync.Once
}

func (p *syncProducer) SendMessage(ctx context.Context, topic string, partition int32, message *codec.Message) error {
	return p.send(ctx, push.Message{Topic: topic, Partition: partition, Key: message.Key, Value: message.Value})
}

// SendMessages sends the message to the partitions 0 to partitions - 1.
func (p *syncProducer) SendMessages(ctx context.Context, topic string, partitions int32, message *codec.Message) error {
	messages := make([]push.Message, partitions)
	for partition := range messages {
		messages[partition] = push.Message{Topic: topic, Partition: int32(partition), Key: message.Key, Value: message.Value}
	}
	return p.send(ctx, messages...)
}

func (p *syncProducer) send(ctx context.Context, messages ...push.Message) error {
	p.begin.Do(func() {
		go func() { _ = p.client.Run(p.ctx) }() // its error is SendAndWait's, too
	})
	return failed(ctx, cerror.ErrKafkaSendMessage, p.client.SendAndWait(ctx, messages...))
}

// HeartbeatBrokers is asked for by TiCDC 8.5.4 to 8.5.6 and 26.3. The client of the push feed keeps its connection open without it.
func (*syncProducer) HeartbeatBrokers() {}

func (p *syncProducer) Close() { p.client.Close() }

// failed is the sink's error; what ended with its context says so.
func failed(ctx context.Context, as *errors.Error, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return errors.Trace(ctx.Err())
	}
	return cerror.WrapError(as, err)
}
