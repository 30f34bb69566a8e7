// Package ticdcdump lets TiCDC's Kafka sink (classic architecture, pingcap/tiflow) send to a sidecar of ticdc-dump. The sink knows Kafka by
// kafka.Factory alone; this is one without a broker: its topics are there because the URI says so, and its producers hand TiCDC's own
// encoder's messages to a client of the push feed. What they are, in which partition they come, and when marks and DDLs are sent stays TiCDC's.
//
// The package is compiled inside TiCDC's module, as pkg/sink/ticdcdump, with the client below it as push. TiCDC has no register of sinks:
// add the scheme ticdc-dump beside Kafka in these files (c7b2588ef6c7):
//
//   - a message queue's scheme: pkg/sink/sink_type.go, IsMQScheme
//   - raw change events, checksums: pkg/config/sink.go, pkg/config/replica_config.go
//   - tables in several spans: isSinkCompatibleWithSpanReplication of pkg/config/replica_config.go
//   - the sink of rows: cdc/sink/dmlsink/factory/factory.go, mq.NewKafkaDMLSink with ForKafka(uri) and FactoryCreator(uri)
//   - the sink of DDLs and marks: cdc/sink/ddlsink/factory/factory.go, mq.NewKafkaDDLSink, the same
package ticdcdump

import (
	"context"
	"fmt"
	"net/url"

	"github.com/pingcap/log"
	"github.com/pingcap/tiflow/cdc/model"
	"github.com/pingcap/tiflow/pkg/config"
	cerror "github.com/pingcap/tiflow/pkg/errors"
	"github.com/pingcap/tiflow/pkg/sink/kafka"
	"github.com/pingcap/tiflow/pkg/util"
	"go.uber.org/zap"

	"ticdcdump/push"
	"ticdcdump/push/sinkuri"
)

type factory struct {
	client     push.Config
	partitions int32
}

// FactoryCreator gives what mq.NewKafkaDMLSink and mq.NewKafkaDDLSink ask for, besides ForKafka's URI. The factory checks the URI and reads
// the files that it names; it connects to nobody.
func FactoryCreator(uri *url.URL) kafka.FactoryCreator {
	return func(options *kafka.Options, changefeed model.ChangeFeedID) (kafka.Factory, error) {
		server := config.GetGlobalServerConfig()
		name := fmt.Sprintf("%s/%s/%s", server.ClusterID, changefeed.Namespace, changefeed.ID)
		client, err := sinkuri.Client(uri, name, server.AdvertiseAddr)
		if err != nil {
			return nil, cerror.WrapError(cerror.ErrKafkaInvalidConfig, err)
		}
		client.Logf = func(format string, args ...any) {
			log.Info(fmt.Sprintf(format, args...), zap.String("namespace", changefeed.Namespace), zap.String("changefeed", changefeed.ID))
		}
		partitions := options.PartitionNum
		if partitions == 0 {
			partitions = sinkuri.PartitionsDefault
		}
		return &factory{client: client, partitions: partitions}, nil
	}
}

// ForKafka is the URI without what this package reads of it.
func ForKafka(uri *url.URL) *url.URL { return sinkuri.ForKafka(uri) }

func (f *factory) AdminClient(context.Context) (kafka.ClusterAdminClient, error) {
	return topics{f.partitions}, nil
}

func (f *factory) AsyncProducer(context.Context, chan error) (kafka.AsyncProducer, error) {
	client, err := push.New(f.client)
	if err != nil {
		return nil, cerror.WrapError(cerror.ErrKafkaNewProducer, err)
	}
	return &asyncProducer{client}, nil
}

// SyncProducer's ctx is that of its connection; each send has one besides.
func (f *factory) SyncProducer(ctx context.Context) (kafka.SyncProducer, error) {
	client, err := push.New(f.client)
	if err != nil {
		return nil, cerror.WrapError(cerror.ErrKafkaNewProducer, err)
	}
	return &syncProducer{ctx: ctx, client: client}, nil
}

func (f *factory) MetricsCollector(util.Role, kafka.ClusterAdminClient) kafka.MetricsCollector {
	return noBrokers{}
}

// noBrokers have no metrics; what was sent and kept is in the sidecar's own.
type noBrokers struct{}

func (noBrokers) Run(ctx context.Context) { <-ctx.Done() }
