//go:build !cluster_admin_client

package ticdcdump

import (
	"github.com/pingcap/ticdc/pkg/errors"
	"github.com/pingcap/ticdc/pkg/sink/kafka"
)

// For TiCDC from 2b82c061f (2026-08-10) on, whose kafka.Factory has an AdminClient.
type adminClient = kafka.AdminClient

var errNewProducer = errors.ErrNewKafkaSink

func (topics) GetBrokerConfig(string) (string, bool, error) { return "", false, nil }

func (topics) GetTopicConfig(string, string) (string, bool, error) { return "", false, nil }

func (topics) CreateTopic(*kafka.TopicDetail) error { return nil }
