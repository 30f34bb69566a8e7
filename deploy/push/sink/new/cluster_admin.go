//go:build cluster_admin_client

package ticdcdump

import (
	"math"
	"strconv"

	"github.com/pingcap/ticdc/pkg/errors"
	"github.com/pingcap/ticdc/pkg/sink/kafka"
)

// For TiCDC 8.5.5 to 8.5.7 and 26.3, whose kafka.Factory has a ClusterAdminClient.
type adminClient = kafka.ClusterAdminClient

var errNewProducer = errors.ErrKafkaNewProducer

// GetBrokerConfig answers what the sink must know: there is no bound on messages but the URI's max-message-bytes.
func (topics) GetBrokerConfig(name string) (string, error) {
	if name == kafka.BrokerMessageMaxBytesConfigName {
		return strconv.Itoa(math.MaxInt32), nil
	}
	return "", errors.ErrKafkaConfigNotFound.GenWithStack("there is no broker that has a %s", name)
}

// GetTopicConfig has the sink ask for the broker's.
func (topics) GetTopicConfig(topic, name string) (string, error) {
	return "", errors.ErrKafkaConfigNotFound.GenWithStack("the topic %s has no %s", topic, name)
}

func (topics) CreateTopic(*kafka.TopicDetail, bool) error { return nil }
