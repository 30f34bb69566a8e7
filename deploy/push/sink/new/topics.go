package ticdcdump

import "github.com/pingcap/ticdc/pkg/sink/kafka"

// topics are all there, each with as many partitions as the URI says.
type topics struct{ partitions int32 }

func (topics) GetAllBrokers() []kafka.Broker { return nil }

func (topics) GetBrokerConfig(string) (string, bool, error) { return "", false, nil }

func (topics) GetTopicConfig(string, string) (string, bool, error) { return "", false, nil }

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

func (topics) CreateTopic(*kafka.TopicDetail) error { return nil }

func (topics) Close() {}
