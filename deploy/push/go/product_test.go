package push

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ticdcdump/push/internal/front"
)

const flowing = 400 // messages of a load that are kept before something happens to the sidecar

// to is the configuration for a product's process.
func to(t *testing.T, addresses ...string) Config {
	config := configFor(t, addresses...)
	config.Changefeed = front.Changefeed
	return config
}

func TestTheProductKeepsAllOverANetworkThatBreaks(t *testing.T) {
	product := front.Start(t)
	if product == nil {
		return
	}
	const clients, messages = 3, 8000
	network := startNetwork(t, product.Address, 12)
	var senders sync.WaitGroup
	for number := range clients {
		client, _ := running(t, to(t, refusing(t), network.address))
		senders.Go(func() {
			kept, values := &order{}, make([]string, messages)
			for at := range values {
				values[at] = fmt.Sprintf("%d %d %s", number, at, strings.Repeat("x", at%700))
				if err := client.Send(patient(t), message(values[at]), kept.of(values[at])); err != nil {
					t.Error(err)
					return
				}
			}
			if err := client.SendAndWait(patient(t), message(fmt.Sprintf("%d %d ", number, messages))); err != nil {
				t.Error(err)
				return
			}
			if found := kept.values(); strings.Join(found, "|") != strings.Join(values, "|") {
				t.Errorf("client %d: %d were called back, or not in order", number, len(found))
			}
		})
	}
	senders.Wait()
	t.Logf("the network broke %d times", network.broke.Load())
	judgeProduct(t, product, []int64{messages + 1, messages + 1, messages + 1})
}

// judgeProduct waits until it has read so many messages of each sender: the first time that each comes, it is in order. It is how many came
// again.
func judgeProduct(t *testing.T, product *front.Front, sent []int64) int {
	t.Helper()
	again := 0
	eventually(t, "all that is kept is read and written", func() bool {
		next := make([]int64, len(sent))
		again = 0
		for line, value := range product.Values() {
			number, at := parsed(t, value)
			switch {
			case at > next[number]:
				t.Fatalf("line %d: of sender %d message %d came before %d", line, number, at, next[number])
			case at == next[number]:
				next[number]++
			default:
				again++
			}
		}
		return fmt.Sprint(next) == fmt.Sprint(sent)
	})
	return again
}

func TestTheProductRefusesAnotherChangefeed(t *testing.T) {
	product := front.Start(t)
	if product == nil {
		return
	}
	config := to(t, product.Address)
	config.Changefeed = "default/default/nobodys"
	_, ended := running(t, config)
	if err := result(t, ended); status.Code(err) != codes.FailedPrecondition {
		t.Fatal(err)
	}
}

func TestTheProductTakesAMessageAsLargeAsAny(t *testing.T) {
	product := front.Start(t)
	if product == nil {
		return
	}
	config := to(t, product.Address)
	config.BufferBytesMax = 1 << 20
	client, _ := running(t, config)
	large := Message{Topic: "orders", Key: []byte("large"), Value: make([]byte, 100<<20)}
	if err := client.SendAndWait(patient(t), message("before"), large, message("after")); err != nil {
		t.Fatal(err)
	}
}

// The pipeline does not read: what is taken beyond it is bounded, there and here; Send waits, and nothing more is called back.
func TestTheProductHoldsItsSenderWhileNobodyReads(t *testing.T) {
	const ahead, queue, buffer = 1 << 20, 1 << 20, 1 << 20
	product := front.Start(t, "--unread", "--ahead-bytes-max", fmt.Sprint(ahead), "--queue-bytes-max", fmt.Sprint(queue))
	if product == nil {
		return
	}
	config := to(t, product.Address)
	config.BufferBytesMax = buffer
	client, _ := running(t, config)
	before, load := heap(), startLoad(t, client)
	eventually(t, "nothing more is taken", func() bool {
		return total(&load.kept)*loadBytes >= ahead && buffered(client)+loadBytes+itemBytes+16 > buffer
	})
	heapStaysBelow(t, before+3*uint64(config.BufferBytesMax), outage(t))
	kept, sent := total(&load.kept)*loadBytes, total(&load.sent)*loadBytes
	if kept > ahead+queue || sent > ahead+queue+buffer {
		t.Errorf("%d bytes are kept and %d taken, though nobody reads", kept, sent)
	}
	product.Read()
	eventually(t, "it goes on", func() bool { return total(&load.kept)*loadBytes > 4*(ahead+queue+buffer) })
	if again := judgeProduct(t, product, load.finish()); again > 0 {
		t.Errorf("%d came twice", again)
	}
}

// It is killed and comes back on its folder; it is stopped, so that its connections stand, and goes on.
func TestTheProductIsAwayForAWhile(t *testing.T) {
	for what, ways := range map[string]struct{ leave, back func(*front.Front, *network) }{
		"killed": {
			func(product *front.Front, network *network) { product.Kill(); network.lead("") },
			func(product *front.Front, network *network) { product.Again(); network.lead(product.Address) },
		},
		"frozen": {
			func(product *front.Front, _ *network) { product.Freeze() },
			func(product *front.Front, _ *network) { product.Thaw() },
		},
	} {
		t.Run(what, func(t *testing.T) {
			product := front.Start(t)
			if product == nil {
				return
			}
			network := startNetwork(t, product.Address, 0)
			config := to(t, network.address)
			config.BufferBytesMax = 1 << 20
			client, _ := running(t, config)
			before, load := heap(), startLoad(t, client)
			eventually(t, "it flows", func() bool { return total(&load.kept) >= flowing })
			ways.leave(product, network)
			eventually(t, "the buffer is full", func() bool { return buffered(client)+loadBytes+itemBytes+16 > config.BufferBytesMax })
			heapStaysBelow(t, before+3*uint64(config.BufferBytesMax), outage(t))
			ways.back(product, network)
			on := total(&load.kept) + flowing
			eventually(t, "it goes on", func() bool { return total(&load.kept) >= on })
			again := judgeProduct(t, product, load.finish())
			if held := int(config.BufferBytesMax / loadBytes); again > held { // kept, and not called back when it left
				t.Errorf("%d came twice, and %d were not called back at most", again, held)
			}
			t.Logf("%d messages, %d of them twice", total(&load.sent), again)
		})
	}
}
