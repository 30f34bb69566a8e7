package ticdcdump

import (
	"context"
	"math"
	"strconv"

	cerror "github.com/pingcap/tiflow/pkg/errors"
	"github.com/pingcap/tiflow/pkg/sink/kafka"
)

// topics are all there, each with as many partitions as the URI says.
type topics struct{ partitions int32 }

func (topics) GetAllBrokers(context.Context) ([]kafka.Broker, error) { return nil, nil }

// GetBrokerConfig answers what the sink must know: there is no bound on messages but the URI's max-message-bytes.
func (topics) GetBrokerConfig(_ context.Context, name string) (string, error) {
	if name == kafka.BrokerMessageMaxBytesConfigName {
		return strconv.Itoa(math.MaxInt32), nil
	}
	return "", cerror.ErrKafkaConfigNotFound.GenWithStack("there is no broker that has a %s", name)
}

// GetTopicConfig has the sink ask for the broker's.
func (topics) GetTopicConfig(_ context.Context, topic, name string) (string, error) {
	return "", cerror.ErrKafkaConfigNotFound.GenWithStack("the topic %s has no %s", topic, name)
}

func (t topics) GetTopicsMeta(_ context.Context, names []string, _ bool) (map[string]kafka.TopicDetail, error) {
	details := make(map[string]kafka.TopicDetail, len(names))
	for _, name := range names {
		details[name] = kafka.TopicDetail{Name: name, NumPartitions: t.partitions, ReplicationFactor: 1}
	}
	return details, nil
}

func (t topics) GetTopicsPartitionsNum(_ context.Context, names []string) (map[string]int32, error) {
	numbers := make(map[string]int32, len(names))
	for _, name := range names {
		numbers[name] = t.partitions
	}
	return numbers, nil
}

func (topics) CreateTopic(context.Context, *kafka.TopicDetail, bool) error { return nil }

// HeartbeatBrokers is asked for by TiCDC 8.5.4 to 8.5.6 and 26.3: it keeps connections to brokers open, of which there are none.
func (topics) HeartbeatBrokers() {}

func (topics) Close() {}
