package ticdcdump

import "github.com/pingcap/ticdc/pkg/sink/kafka"

// topics are all there, each with as many partitions as the URI says. What TiCDC's releases ask in different words is in admin.go and
// cluster_admin.go.
type topics struct{ partitions int32 }

func (topics) GetAllBrokers() []kafka.Broker { return nil }

func (t topics) GetTopicsMeta(names []string, _ bool) (map[string]kafka.TopicDetail, error) {
	details := make(map[string]kafka.TopicDetail, len(names))
	for _, name := range names {
		details[name] = kafka.TopicDetail{Name: name, NumPartitions: t.partitions, ReplicationFactor: 1}
	}
	return details, nil
}

func (t topics) GetTopicsPartitionsNum(names []string) (map[string]int32, error) {
	numbers := make(map[string]int32, len(names))
	for _, name := range names {
		numbers[name] = t.partitions
	}
	return numbers, nil
}

// Heartbeat is asked for by TiCDC 8.5.5, 8.5.6 and 26.3: it keeps connections to brokers open, of which there are none.
func (topics) Heartbeat() {}

func (topics) Close() {}
