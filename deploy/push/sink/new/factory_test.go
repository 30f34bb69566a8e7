package ticdcdump_test

import (
	"context"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/pingcap/ticdc/pkg/common"
	codec "github.com/pingcap/ticdc/pkg/sink/codec/common"
	"github.com/pingcap/ticdc/pkg/sink/kafka"
	"github.com/pingcap/ticdc/pkg/sink/ticdcdump"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// factoryOf gives the factory of a URI, and how many partitions its topics have.
func factoryOf(t *testing.T, uri string, partitions int32) (kafka.Factory, int32) {
	parsed, err := url.Parse(uri)
	require.NoError(t, err)
	made, err := ticdcdump.NewFactory(parsed, &partitions, common.NewChangefeedID4Test("default", "test"))
	require.NoError(t, err)
	return made, partitions
}

func TestATopicIsThereWithThePartitionsOfTheURI(t *testing.T) {
	for given, expected := range map[int32]int32{0: 3, 7: 7} {
		made, partitions := factoryOf(t, "ticdc-dump://127.0.0.1:1/orders", given)
		require.Equal(t, expected, partitions)
		admin, err := made.AdminClient(context.Background())
		require.NoError(t, err)
		found, err := admin.GetTopicsMeta([]string{"orders", "others"}, false)
		require.NoError(t, err)
		require.Equal(t, expected, found["orders"].NumPartitions)
		require.Equal(t, expected, found["others"].NumPartitions)
		numbers, err := admin.GetTopicsPartitionsNum([]string{"orders"})
		require.NoError(t, err)
		require.Equal(t, map[string]int32{"orders": expected}, numbers)
	}
}

// asyncOf is the producer of rows, running; the channel has what it ended with.
func asyncOf(t *testing.T, uri string) (kafka.AsyncProducer, <-chan error) {
	made, _ := factoryOf(t, uri, 3)
	producer, err := made.AsyncProducer(context.Background())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- producer.AsyncRunCallback(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		producer.Close()
		<-over
	})
	return producer, ended
}

func TestARowsCallbackIsCalledWhenTheSidecarHasKeptIt(t *testing.T) {
	fake := startSidecar(t, nil)
	producer, _ := asyncOf(t, "ticdc-dump://"+fake.address+"/orders")
	var called atomic.Int32
	row := &codec.Message{Value: []byte("row"), Callback: func() { called.Add(1) }}
	require.NoError(t, producer.AsyncSend(context.Background(), "orders", 2, row))
	eventually(t, "the row comes", func() bool { return len(fake.messages()) == 1 })
	require.Zero(t, called.Load())
	fake.keep()
	eventually(t, "the callback", func() bool { return called.Load() == 1 })
	came := fake.messages()[0]
	require.Equal(t, "orders", came.Topic)
	require.Equal(t, int32(2), came.Partition)
	require.Equal(t, []byte("row"), came.Value)
	require.Empty(t, came.Key)
	require.NotNil(t, came.Key, "as through Kafka, a row's key is empty, not null")
}

func TestAMarkComesToEachPartitionAndIsWaitedFor(t *testing.T) {
	fake := startSidecar(t, nil)
	made, _ := factoryOf(t, "ticdc-dump://"+fake.address+"/orders", 3)
	producer, err := made.SyncProducer(context.Background())
	require.NoError(t, err)
	defer producer.Close()
	require.Empty(t, fake.said(), "who sends no mark does not connect")
	sent := make(chan error, 1)
	go func() { sent <- producer.SendMessages("orders", 4, &codec.Message{Key: []byte("mark")}) }()
	eventually(t, "the marks come", func() bool { return len(fake.messages()) == 4 })
	require.Empty(t, sent)
	fake.keep()
	require.NoError(t, <-sent)
	for partition, message := range fake.messages() {
		require.Equal(t, int32(partition), message.Partition)
		require.Equal(t, []byte("mark"), message.Key)
		require.Nil(t, message.Value)
	}
	require.NoError(t, producer.SendMessage("others", 0, &codec.Message{Value: []byte("ddl")}))
	require.Equal(t, "others", fake.messages()[4].Topic)
	require.Len(t, fake.said(), 1)
}

func TestARefusalIsTheErrorOfBothProducers(t *testing.T) {
	fake := startSidecar(t, status.Error(codes.Unauthenticated, "the token is wrong"))
	uri := "ticdc-dump://" + fake.address + "/orders"
	producer, ended := asyncOf(t, uri)
	err := <-ended
	require.ErrorContains(t, err, "the token is wrong")
	require.ErrorContains(t, err, "ErrKafkaSendMessage")
	require.ErrorContains(t, producer.AsyncSend(context.Background(), "orders", 0, &codec.Message{}), "the token is wrong")
	made, _ := factoryOf(t, uri, 3)
	marks, err := made.SyncProducer(context.Background())
	require.NoError(t, err)
	defer marks.Close()
	err = marks.SendMessage("orders", 0, &codec.Message{})
	require.ErrorContains(t, err, "the token is wrong")
	require.ErrorContains(t, err, "ErrKafkaSendMessage")
}

func TestAClosedProducerEndsWithoutAnError(t *testing.T) {
	fake := startSidecar(t, nil)
	producer, ended := asyncOf(t, "ticdc-dump://"+fake.address+"/orders")
	eventually(t, "a stream", func() bool { return len(fake.said()) == 1 })
	producer.Close()
	require.NoError(t, <-ended)
	require.Error(t, producer.AsyncSend(context.Background(), "orders", 0, &codec.Message{}))
}

func TestWhatEndsWithItsContextSaysSo(t *testing.T) {
	fake := startSidecar(t, nil)
	made, _ := factoryOf(t, "ticdc-dump://"+fake.address+"/orders", 3)
	ctx, cancel := context.WithCancel(context.Background())
	producer, err := made.SyncProducer(ctx)
	require.NoError(t, err)
	defer producer.Close()
	sent := make(chan error, 1)
	go func() { sent <- producer.SendMessage("orders", 0, &codec.Message{}) }()
	eventually(t, "the message comes", func() bool { return len(fake.messages()) == 1 })
	cancel()
	require.ErrorIs(t, <-sent, context.Canceled)
}

func TestASidecarThatRunsKeepsRowsAndMarks(t *testing.T) {
	address := running()
	if address == "" {
		t.Log("NOT RUN: TICDC_DUMP_PUSH_ADDRESS names no sidecar")
		return
	}
	made, _ := factoryOf(t, "ticdc-dump://"+address+"/orders", 3)
	rows, _ := asyncOf(t, "ticdc-dump://"+address+"/orders")
	var kept atomic.Int32
	for range 1000 {
		row := &codec.Message{Key: []byte("key"), Value: []byte("row"), Callback: func() { kept.Add(1) }}
		require.NoError(t, rows.AsyncSend(context.Background(), "orders", 1, row))
	}
	eventually(t, "all rows are kept", func() bool { return kept.Load() == 1000 })
	marks, err := made.SyncProducer(context.Background())
	require.NoError(t, err)
	defer marks.Close()
	require.NoError(t, marks.SendMessages("orders", 3, &codec.Message{Key: []byte("mark")}))
}
