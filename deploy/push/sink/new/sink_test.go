package ticdcdump_test

import (
	"context"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/pingcap/ticdc/downstreamadapter/sink"
	"github.com/pingcap/ticdc/pkg/common"
	commonEvent "github.com/pingcap/ticdc/pkg/common/event"
	"github.com/pingcap/ticdc/pkg/config"
	"github.com/pingcap/ticdc/pkg/errors"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ticdcdump/push/feedpb"
)

var changefeed = common.NewChangefeedID4Test("default", "test")

// of gives a changefeed's settings as its creation has them.
func of(t *testing.T, uri string) *config.ChangefeedConfig {
	parsed, err := url.Parse(uri)
	require.NoError(t, err)
	replica := config.GetDefaultReplicaConfig()
	require.NoError(t, replica.ValidateAndAdjust(parsed))
	return &config.ChangefeedConfig{ChangefeedID: changefeed, SinkURI: uri, SinkConfig: replica.Sink}
}

// started is TiCDC's sink, running; the channel has what it ended with.
func started(t *testing.T, uri string) (sink.Sink, <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	made, err := sink.New(ctx, of(t, uri), changefeed, common.DefaultKeyspaceID)
	require.NoError(t, err)
	require.Equal(t, common.KafkaSinkType, made.SinkType())
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- made.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		made.Close()
		<-over
	})
	return made, ended
}

func TestAURIIsCheckedWithoutASidecar(t *testing.T) {
	require.True(t, config.IsMQScheme("ticdc-dump"))
	require.NoError(t, sink.Verify(context.Background(), of(t, "ticdc-dump://127.0.0.1:1/orders?protocol=open-protocol"), changefeed))
	for uri, expected := range wrong {
		require.ErrorContains(t, sink.Verify(context.Background(), of(t, uri), changefeed), expected, uri)
	}
}

func TestARowIsFlushedWhenTheSidecarHasKeptIt(t *testing.T) {
	helper := commonEvent.NewEventTestHelper(t)
	defer helper.Close()
	helper.Tk().MustExec("use test")
	helper.DDL2Job("create table orders (id int primary key, name varchar(32))")
	rows := helper.DML2Event("test", "orders", "insert into orders values (1, 'one')", "insert into orders values (2, 'two')")
	var flushed atomic.Bool
	rows.AddPostFlushFunc(func() { flushed.Store(true) })

	if address := running(); address != "" {
		made, _ := started(t, "ticdc-dump://"+address+"/orders?protocol=open-protocol&partition-num=3")
		made.AddDMLEvent(rows)
		eventually(t, "the sidecar keeps the rows", flushed.Load)
		return
	}
	fake := startSidecar(t, nil)
	made, _ := started(t, "ticdc-dump://"+fake.address+"/orders?protocol=open-protocol&partition-num=3&max-batch-size=1")
	made.AddDMLEvent(rows)
	eventually(t, "the rows come", func() bool { return len(fake.messages()) > 0 })
	require.False(t, flushed.Load())
	fake.keep()
	eventually(t, "the rows count as flushed", flushed.Load)
	require.Len(t, fake.messages(), 2)
	require.Equal(t, "orders", fake.messages()[0].Topic)
	require.Equal(t, "default/default/test", fake.said()[0].Changefeed)
	require.Equal(t, feedpb.Form_FORM_MESSAGES, fake.said()[0].Form)
}

func TestMarksAndDDLsComeToEveryPartition(t *testing.T) {
	fake := startSidecar(t, nil)
	fake.keep()
	made, _ := started(t, "ticdc-dump://"+fake.address+"/orders?protocol=open-protocol")
	made.AddCheckpointTs(417318403368288260)
	eventually(t, "a mark in each of three partitions", func() bool { return len(fake.messages()) == 3 })
	partitions := map[int32]bool{}
	for _, message := range fake.messages() {
		partitions[message.Partition] = true
	}
	require.Equal(t, map[int32]bool{0: true, 1: true, 2: true}, partitions)

	var flushed atomic.Bool
	ddl := &commonEvent.DDLEvent{Query: "create database d", SchemaName: "d", FinishedTs: 417318403368288261}
	ddl.AddPostFlushFunc(func() { flushed.Store(true) })
	require.NoError(t, made.WriteBlockEvent(ddl))
	require.True(t, flushed.Load())
	require.Len(t, fake.messages(), 6)
}

func TestARefusalEndsTheSinkAndSaysWhy(t *testing.T) {
	fake := startSidecar(t, status.Error(codes.FailedPrecondition, "the sender is of changefeed 'a', the sidecar of 'b'"))
	made, ended := started(t, "ticdc-dump://"+fake.address+"/orders?protocol=open-protocol")
	err := <-ended
	require.ErrorIs(t, err, errors.ErrKafkaSendMessage)
	require.ErrorContains(t, err, "the sidecar of 'b'")
	require.False(t, made.IsNormal())
}
