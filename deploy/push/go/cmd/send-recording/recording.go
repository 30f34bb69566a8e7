package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"ticdcdump/push"
)

// recorded is one Kafka record. mark: it is a resolved mark or a DDL. ts: the mark's; of rows, the lowest commit_ts.
type recorded struct {
	push.Message
	offset int64
	mark   bool
	ts     uint64
}

// classify tells `mark` and `ts` of a message in a changefeed's protocol.
type classify func(key, value []byte) (mark bool, ts uint64, err error)

// read gives each partition's records in the order of their offsets.
func read(folder, feed string) ([][]recorded, error) {
	found, err := os.ReadFile(filepath.Join(folder, "recording.json"))
	if err != nil {
		return nil, err
	}
	var recording struct {
		Feeds map[string]struct {
			Kind, File string
			SinkURI    string `json:"sink_uri"`
		}
	}
	if err := json.Unmarshal(found, &recording); err != nil {
		return nil, fmt.Errorf("%s/recording.json: %w", folder, err)
	}
	changefeed, is := recording.Feeds[feed]
	if !is || changefeed.Kind != "kafka" {
		return nil, fmt.Errorf("the recording %s has no Kafka changefeed %q", folder, feed)
	}
	sink, err := url.Parse(changefeed.SinkURI)
	if err != nil {
		return nil, err
	}
	partitions, err := strconv.Atoi(sink.Query().Get("partition-num"))
	if err != nil || partitions < 1 {
		return nil, fmt.Errorf("the sink URI of %s says no partition-num", feed)
	}
	protocols := map[string]classify{"open-protocol": openProtocol, "canal-json": canalJSON}
	of, is := protocols[sink.Query().Get("protocol")]
	if !is {
		return nil, fmt.Errorf("the changefeed %s has the protocol %q; expected open-protocol or canal-json", feed, sink.Query().Get("protocol"))
	}
	lanes, err := records(filepath.Join(folder, changefeed.File), strings.TrimPrefix(sink.Path, "/"), partitions)
	if err != nil {
		return nil, err
	}
	for _, lane := range lanes {
		for at := range lane {
			if lane[at].mark, lane[at].ts, err = of(lane[at].Key, lane[at].Value); err != nil {
				return nil, fmt.Errorf("%s, partition %d, offset %d: %w", changefeed.File, lane[at].Partition, lane[at].offset, err)
			}
		}
	}
	return lanes, nil
}

// records reads kafka/<feed>.parquet: partition, offset, timestamp_ms, key, value.
func records(path, topic string, partitions int) ([][]recorded, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Stat()
	if err != nil {
		return nil, err
	}
	table, err := parquet.OpenFile(file, size.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	column := map[string]int{}
	for _, name := range []string{"partition", "offset", "key", "value"} {
		leaf, is := table.Schema().Lookup(name)
		if !is {
			return nil, fmt.Errorf("%s has no column %s", path, name)
		}
		column[name] = leaf.ColumnIndex
	}
	lanes := make([][]recorded, partitions)
	for _, group := range table.RowGroups() {
		err := eachRow(group, func(row parquet.Row) error {
			partition := row[column["partition"]].Int32()
			if partition < 0 || int(partition) >= partitions {
				return fmt.Errorf("%s has a record of partition %d of %d", path, partition, partitions)
			}
			message := push.Message{Topic: topic, Partition: partition, Key: bytesOf(row[column["key"]]), Value: bytesOf(row[column["value"]])}
			lanes[partition] = append(lanes[partition], recorded{Message: message, offset: row[column["offset"]].Int64()})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, lane := range lanes {
		slices.SortStableFunc(lane, func(a, b recorded) int { return int(a.offset - b.offset) })
	}
	return lanes, nil
}

func eachRow(group parquet.RowGroup, do func(parquet.Row) error) error {
	rows := group.Rows()
	defer rows.Close()
	buffer := make([]parquet.Row, 64)
	for {
		count, err := rows.ReadRows(buffer)
		for _, row := range buffer[:count] {
			if err := do(row); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// bytesOf is nil for NULL only.
func bytesOf(value parquet.Value) []byte {
	if value.IsNull() {
		return nil
	}
	return append([]byte{}, value.ByteArray()...)
}

// openProtocol: the key is a version and frames of {"ts","t": 1 row | 2 DDL | 3 resolved}; what it says is never compressed.
func openProtocol(key, _ []byte) (bool, uint64, error) {
	if len(key) < 8 || binary.BigEndian.Uint64(key) != 1 {
		return false, 0, errors.New("the key does not begin with open-protocol's version 1")
	}
	mark, lowest, highest := false, uint64(math.MaxUint64), uint64(0)
	for rest := key[8:]; len(rest) > 0; {
		if len(rest) < 8 || binary.BigEndian.Uint64(rest) > uint64(len(rest)-8) {
			return false, 0, errors.New("a frame of the key ends after the key does")
		}
		length := binary.BigEndian.Uint64(rest)
		var head struct {
			TS uint64 `json:"ts"`
			T  int    `json:"t"`
		}
		if err := json.Unmarshal(rest[8:8+length], &head); err != nil {
			return false, 0, err
		}
		mark = mark || head.T != 1
		lowest, highest = min(lowest, head.TS), max(highest, head.TS)
		rest = rest[8+length:]
	}
	if mark {
		return true, highest, nil
	}
	return false, lowest, nil
}

// canalJSON: with TiDB's extension, without which there are no resolved marks. The schema calls its types and events so itself.
func canalJSON(_, value []byte) (bool, uint64, error) {
	var message struct {
		IsDDL bool   `json:"isDdl"`
		Type  string `json:"type"`
		TiDB  *struct {
			CommitTS    uint64 `json:"commitTs"`
			WatermarkTS uint64 `json:"watermarkTs"`
		} `json:"_tidb"`
	}
	if err := json.Unmarshal(value, &message); err != nil {
		return false, 0, err
	}
	if message.TiDB == nil {
		return false, 0, errors.New("a canal-json message without _tidb (enable-tidb-extension): it has no commit_ts and its feed no marks")
	}
	if message.Type == "TIDB_WATERMARK" {
		return true, message.TiDB.WatermarkTS, nil
	}
	return message.IsDDL, message.TiDB.CommitTS, nil
}
