// Package ticdcdump lets TiCDC's Kafka sink (new architecture, pingcap/ticdc) send to a sidecar of ticdc-dump. The sink knows Kafka by
// kafka.Factory alone; this is one without a broker: its topics are there because the URI says so, and its producers hand TiCDC's own
// encoder's messages to a client of the push feed. What they are, in which partition they come, and when marks and DDLs are sent stays TiCDC's.
//
// The package is compiled inside TiCDC's module, as pkg/sink/ticdcdump, with the client below it as push; for TiCDC 8.5.5 to 8.5.7 and 26.3
// with the build tag cluster_admin_client. TiCDC has no register of sinks: add the scheme ticdc-dump beside Kafka in these files
// (b813e76f9dad):
//
//   - a message queue's scheme: pkg/config/sink_protocol.go, IsMQScheme
//   - raw change events, checksums: pkg/config/sink.go, pkg/config/replica_config.go
//   - the sink of rows, DDLs and marks: downstreamadapter/sink/sink.go (New, Verify); downstreamadapter/sink/kafka, helper.go and Verify:
//     options.Apply with ForKafka(uri), and NewFactory in place of NewSaramaFactory, or of the FactoryCreator of 8.5 and 26.3
package ticdcdump

import (
	"context"
	"fmt"
	"net/url"

	"github.com/pingcap/log"
	"github.com/pingcap/ticdc/pkg/common"
	"github.com/pingcap/ticdc/pkg/config"
	"github.com/pingcap/ticdc/pkg/errors"
	"github.com/pingcap/ticdc/pkg/sink/kafka"
	"go.uber.org/zap"

	"ticdcdump/push"
	"ticdcdump/push/sinkuri"
)

type factory struct {
	client     push.Config
	partitions int32
}

// NewFactory checks the URI and reads the files that it names; it connects to nobody. partitions is what the Kafka sink has read of the
// URI, 0 if nothing; it is what every topic has afterwards.
func NewFactory(uri *url.URL, partitions *int32, changefeed common.ChangeFeedID) (kafka.Factory, error) {
	server := config.GetGlobalServerConfig()
	name := fmt.Sprintf("%s/%s/%s", server.ClusterID, changefeed.Keyspace(), changefeed.Name())
	client, err := sinkuri.Client(uri, name, server.AdvertiseAddr)
	if err != nil {
		return nil, errors.WrapError(errors.ErrKafkaInvalidConfig, err)
	}
	client.Logf = func(format string, args ...any) {
		log.Info(fmt.Sprintf(format, args...), zap.String("keyspace", changefeed.Keyspace()), zap.String("changefeed", changefeed.Name()))
	}
	if *partitions == 0 {
		*partitions = sinkuri.PartitionsDefault
	}
	return &factory{client: client, partitions: *partitions}, nil
}

// Is says whether the URI is one of a sidecar's.
func Is(uri *url.URL) bool { return sinkuri.Is(uri) }

// ForKafka is the URI as the Kafka sink's options read it.
func ForKafka(uri *url.URL) *url.URL { return sinkuri.ForKafka(uri) }

func (f *factory) AdminClient(context.Context) (adminClient, error) {
	return topics{f.partitions}, nil
}

func (f *factory) AsyncProducer(context.Context) (kafka.AsyncProducer, error) {
	client, err := push.New(f.client)
	if err != nil {
		return nil, errors.WrapError(errNewProducer, err)
	}
	return &asyncProducer{client}, nil
}

// SyncProducer's ctx is that of all its sends.
func (f *factory) SyncProducer(ctx context.Context) (kafka.SyncProducer, error) {
	client, err := push.New(f.client)
	if err != nil {
		return nil, errors.WrapError(errNewProducer, err)
	}
	return &syncProducer{ctx: ctx, client: client}, nil
}

func (f *factory) MetricsCollector(adminClient) kafka.MetricsCollector { return noBrokers{} }

// noBrokers have no metrics; what was sent and kept is in the sidecar's own.
type noBrokers struct{}

func (noBrokers) Run(ctx context.Context) { <-ctx.Done() }
