package ticdcdump_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tiflow/cdc/model"
	ddlfactory "github.com/pingcap/tiflow/cdc/sink/ddlsink/factory"
	"github.com/pingcap/tiflow/cdc/sink/dmlsink/factory"
	"github.com/pingcap/tiflow/cdc/sink/tablesink"
	"github.com/pingcap/tiflow/cdc/sink/validator"
	"github.com/pingcap/tiflow/pkg/config"
	"github.com/pingcap/tiflow/pkg/pdutil"
	"github.com/pingcap/tiflow/pkg/sink"
	"github.com/pingcap/tiflow/pkg/spanz"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ticdcdump/push/feedpb"
)

var changefeed = model.DefaultChangeFeedID("test")

// of gives a changefeed's settings as its creation has them.
func of(t *testing.T, uri string) *config.ReplicaConfig {
	parsed, err := url.Parse(uri)
	require.NoError(t, err)
	replica := config.GetDefaultReplicaConfig()
	require.NoError(t, replica.ValidateAndAdjust(parsed))
	return replica
}

// started is TiCDC's sink of one table with two rows at commit-ts 2 that are to be flushed; the channel has what the sink ended with.
func started(t *testing.T, uri string) (tablesink.TableSink, <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 16)
	made, err := factory.New(ctx, changefeed, uri, of(t, uri), ended, pdutil.NewClock4Test())
	require.NoError(t, err)
	require.Equal(t, factory.CategoryMQ, made.Category())
	t.Cleanup(func() {
		cancel()
		made.Close()
	})
	table := made.CreateTableSink(changefeed, spanz.TableIDToComparableSpan(1), 1, pdutil.NewClock4Test(),
		prometheus.NewCounter(prometheus.CounterOpts{}), prometheus.NewHistogram(prometheus.HistogramOpts{}))
	columns := []*model.Column{{Name: "id", Type: mysql.TypeLong, Flag: model.HandleKeyFlag | model.PrimaryKeyFlag}}
	info := model.BuildTableInfo("test", "orders", columns, [][]int{{0}})
	for id := range int64(2) {
		table.AppendRowChangedEvents(&model.RowChangedEvent{StartTs: 1, CommitTs: 2, TableInfo: info,
			Columns: model.Columns2ColumnDatas([]*model.Column{{Name: "id", Value: id}}, info)})
	}
	require.NoError(t, table.UpdateResolvedTs(model.NewResolvedTs(3)))
	return table, ended
}

func TestAURIIsCheckedWithoutASidecar(t *testing.T) {
	require.True(t, sink.IsMQScheme("ticdc-dump"))
	good := "ticdc-dump://127.0.0.1:1/orders?protocol=open-protocol"
	require.NoError(t, validator.Validate(context.Background(), changefeed, good, of(t, good), pdutil.NewClock4Test()))
	for uri, expected := range wrong {
		err := validator.Validate(context.Background(), changefeed, uri, of(t, uri), pdutil.NewClock4Test())
		require.ErrorContains(t, err, expected, uri)
	}
}

func TestTheTablesCheckpointMovesWhenTheSidecarHasKeptItsRows(t *testing.T) {
	if address := running(); address != "" {
		table, _ := started(t, "ticdc-dump://"+address+"/orders?protocol=open-protocol&partition-num=3")
		eventually(t, "the sidecar keeps the rows", func() bool { return table.GetCheckpointTs().Ts == 3 })
		return
	}
	fake := startSidecar(t, nil)
	table, _ := started(t, "ticdc-dump://"+fake.address+"/orders?protocol=open-protocol&partition-num=3&max-batch-size=1")
	eventually(t, "the rows come", func() bool { return len(fake.messages()) > 0 })
	require.Less(t, table.GetCheckpointTs().Ts, uint64(3))
	fake.keep()
	eventually(t, "the checkpoint moves", func() bool { return table.GetCheckpointTs().Ts == 3 })
	require.Len(t, fake.messages(), 2)
	require.Equal(t, "orders", fake.messages()[0].Topic)
	require.Equal(t, "default/default/test", fake.said()[0].Changefeed)
	require.Equal(t, feedpb.Form_FORM_MESSAGES, fake.said()[0].Form)
}

func TestMarksAndDDLsComeToEveryPartition(t *testing.T) {
	fake := startSidecar(t, nil)
	fake.keep()
	uri := "ticdc-dump://" + fake.address + "/orders?protocol=open-protocol"
	made, err := ddlfactory.New(context.Background(), changefeed, uri, of(t, uri))
	require.NoError(t, err)
	defer made.Close()
	require.NoError(t, made.WriteCheckpointTs(context.Background(), 417318403368288260, nil))
	require.Len(t, fake.messages(), 3)
	partitions := map[int32]bool{}
	for _, message := range fake.messages() {
		partitions[message.Partition] = true
	}
	require.Equal(t, map[int32]bool{0: true, 1: true, 2: true}, partitions)

	ddl := &model.DDLEvent{CommitTs: 417318403368288261, Query: "create database d",
		TableInfo: &model.TableInfo{TableName: model.TableName{Schema: "d"}}}
	require.NoError(t, made.WriteDDLEvent(context.Background(), ddl))
	require.Len(t, fake.messages(), 6)
}

func TestARefusalEndsTheSinkAndSaysWhy(t *testing.T) {
	fake := startSidecar(t, status.Error(codes.FailedPrecondition, "the sender is of changefeed 'a', the sidecar of 'b'"))
	_, ended := started(t, "ticdc-dump://"+fake.address+"/orders?protocol=open-protocol")
	err := <-ended
	require.ErrorContains(t, err, "ErrKafkaAsyncSendMessage")
	require.ErrorContains(t, err, "the sidecar of 'b'")
}
