package push

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// network passes bytes on from one address to whoever is behind it, or to nobody.
type network struct {
	address string
	breaks  int64 // so many of its first connections are cut after some bytes
	broke   atomic.Int64
	met     atomic.Int64 // connections
	passing sync.WaitGroup

	mu   sync.Mutex
	to   string // empty: nobody is there
	open map[net.Conn]struct{}
}

const breakBytesMax = 3 << 20

func startNetwork(t *testing.T, to string, breaks int64) *network {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{address: listener.Addr().String(), breaks: breaks, to: to, open: map[net.Conn]struct{}{}}
	n.passing.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			n.met.Add(1)
			n.passing.Go(func() { n.pass(from) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); n.lead(""); n.passing.Wait() })
	return n
}

// lead cuts all connections; later ones go to that address, or are cut at once.
func (n *network) lead(to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to = to
	for connection := range n.open {
		_ = connection.Close()
	}
}

// joined has both ends cut by lead; nil where nobody is there.
func (n *network) joined(from net.Conn) net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.to == "" {
		return nil
	}
	onward, err := net.Dial("tcp", n.to)
	if err != nil {
		return nil
	}
	n.open[from], n.open[onward] = struct{}{}, struct{}{}
	return onward
}

func (n *network) pass(from net.Conn) {
	defer from.Close()
	onward := n.joined(from)
	if onward == nil {
		return
	}
	defer onward.Close()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.open, from)
		delete(n.open, onward)
	}()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(from, onward)
		_ = onward.Close()
	}()
	if n.broke.Load() < n.breaks {
		if _, err := io.CopyN(onward, from, 1000+rand.Int64N(breakBytesMax)); err == nil {
			n.broke.Add(1)
		}
	} else {
		_, _ = io.Copy(onward, from)
	}
	_ = from.Close()
	_ = onward.Close()
	<-back
}
