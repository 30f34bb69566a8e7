package push

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc/credentials"
)

// secure is TLS that remembers why the sidecar and this sink do not trust each other: gRPC says so in a text, under the code of an outage.
type secure struct {
	credentials.TransportCredentials
	distrust *atomic.Pointer[distrust]
}

// distrust is what a handshake came to. sure: the next one would come to it as well, until somebody changes a file or a setting.
type distrust struct {
	text string
	sure bool
}

func newSecure(config *tls.Config) secure {
	return secure{credentials.NewTLS(config), &atomic.Pointer[distrust]{}}
}

// ClientHandshake is gRPC's.
func (s secure) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := s.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		s.failed(err)
		return nil, nil, err
	}
	return &shaken{Conn: connection, secure: s}, info, nil
}

// Clone is gRPC's.
func (s secure) Clone() credentials.TransportCredentials {
	return secure{s.TransportCredentials.Clone(), s.distrust}
}

// failed looks at what a handshake ended with, or the first read after it. A connection that just ends before its handshake does is an outage:
// so does what stands before a sidecar that is away.
func (s secure) failed(err error) {
	var certificate *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var network *net.OpError
	switch {
	case errors.As(err, &certificate):
		s.note(true, err, "its certificate is not trusted here", "give ca the CA that has signed the sidecar's push.tls.cert_file, which must name this host")
	case errors.As(err, &header):
		s.note(true, err, "it does not speak TLS", "set the sidecar's push.tls, or leave ca out")
	case errors.As(err, &network) && network.Op == "remote error": // as crypto/tls calls an alert
		s.note(true, err, "it does not trust this sink", ofSink)
	}
}

func (s secure) ended(err error) {
	for _, ends := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, ends) {
			s.note(false, err, "it ended the connection when it had seen this sink's certificate, or that there is none", ofSink)
		}
	}
}

const ofSink = "give cert and key that the CA of the sidecar's push.tls.ca_file has signed, and that have not expired"

// note keeps what is sure: reads and writes of one connection end in any order.
func (s secure) note(sure bool, cause error, what, remedy string) {
	if known := s.distrust.Load(); known != nil && known.sure {
		return
	}
	s.distrust.Store(&distrust{fmt.Sprintf("%s (%s); %s", what, cause, remedy), sure})
}

// shaken is a connection after the handshake. With TLS 1.3 that is over here before the sidecar has judged our certificate: one that refuses
// it sends an alert, or, as gRPC's servers in C and Python, just ends the connection.
type shaken struct {
	net.Conn
	secure secure
	heard  atomic.Bool
}

func (c *shaken) Read(into []byte) (int, error) {
	count, err := c.Conn.Read(into)
	c.judge(count > 0, err)
	return count, err
}

func (c *shaken) Write(data []byte) (int, error) {
	count, err := c.Conn.Write(data)
	c.judge(false, err)
	return count, err
}

func (c *shaken) judge(heard bool, err error) {
	if heard {
		c.heard.Store(true)
	} else if err != nil && !c.heard.Load() {
		c.secure.failed(err)
		c.secure.ended(err)
	}
}
