package push

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ticdcdump/push/feedpb"
)

func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"no address":     func(c *Config) { c.Addresses = nil },
		"not host:port":  func(c *Config) { c.Addresses = []string{"127.0.0.1:1", "sidecar"} },
		"not {cluster":   func(c *Config) { c.Changefeed = "default/test" },
		"printable":      func(c *Config) { c.Token = "secret\n" },
		"sender's name":  func(c *Config) { c.Sender = strings.Repeat("x", 256) },
		"BufferBytesMax": func(c *Config) { c.BufferBytesMax = -1 },
		"OutageMax":      func(c *Config) { c.OutageMax = -1 },
	} {
		config := configFor(t, "127.0.0.1:1")
		change(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestARefusalEndsRunAndSaysWhatToDo(t *testing.T) {
	for code, says := range map[codes.Code]string{
		codes.FailedPrecondition: "push.form",
		codes.Unauthenticated:    "push.token_file",
		codes.InvalidArgument:    "one release",
		codes.Unimplemented:      "push.listen",
	} {
		sidecar := startSidecar(t, func(k *talk) error {
			if err := k.greet(); err != nil {
				return err
			}
			return status.Error(code, "because")
		})
		client, ended := running(t, configFor(t, sidecar.address))
		err := result(t, ended)
		if status.Code(err) != code || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "because") ||
			!strings.Contains(err.Error(), sidecar.address) {
			t.Errorf("%s: %v", code, err)
		}
		if sent := client.Send(patient(t), message("a"), nil); !errors.Is(sent, err) {
			t.Errorf("%s: Send says %v", code, sent)
		}
	}
}

func TestARefusalInTheMiddleIsToldToWhoWaits(t *testing.T) {
	sidecar := startSidecar(t, func(k *talk) error {
		if err := errors.Join(k.greet(), k.welcome(1<<20, 0)); err != nil {
			return err
		}
		if _, err := k.hear(); err != nil {
			return err
		}
		return status.Error(codes.InvalidArgument, "message 2 cannot be read")
	})
	client, _ := running(t, configFor(t, sidecar.address))
	if err := client.SendAndWait(patient(t), message("a"), message("b")); status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
}

func TestASidecarOfAnotherVersionIsRefused(t *testing.T) {
	sidecar := startSidecar(t, func(k *talk) error {
		welcome := &feedpb.SidecarMessage_Welcome{Welcome: &feedpb.Welcome{Version: 1, CreditBytes: 1000}}
		return errors.Join(k.greet(), k.tell(&feedpb.SidecarMessage{Body: welcome}), k.serve())
	})
	_, ended := running(t, configFor(t, sidecar.address))
	if err := result(t, ended); !strings.Contains(err.Error(), "version 1 of feed.proto, this sink version 2") {
		t.Fatal(err)
	}
}

func TestTheAddressesAreTriedInTurn(t *testing.T) {
	first := startSidecar(t, func(k *talk) error {
		if k.at > 0 {
			return status.Error(codes.Unavailable, "the sidecar ends its term; connect again")
		}
		if err := errors.Join(k.greet(), k.welcome(1<<20, 1<<16)); err != nil {
			return err
		}
		received, err := k.hear()
		if err != nil {
			return err
		}
		return errors.Join(k.keep(received.Number), status.Error(codes.Unavailable, "the sidecar ends its term; connect again"))
	})
	second := startSidecar(t, healthy)
	client, _ := running(t, configFor(t, refusing(t), first.address, refusing(t), second.address))
	for _, value := range []string{"a", "b"} {
		if err := client.SendAndWait(patient(t), message(value)); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "the first", first.values(), []string{"a"})
	equal(t, "the second", second.values(), []string{"b"})
}

func TestAnOutageEndsRunOnlyWhileSomethingWaits(t *testing.T) {
	config := configFor(t, refusing(t), refusing(t))
	config.OutageMax = 50 * time.Millisecond
	client, ended := running(t, config)
	select {
	case err := <-ended:
		t.Fatalf("nothing waited: %v", err)
	case <-time.After(10 * config.OutageMax):
	}
	err := client.SendAndWait(patient(t), message("a"))
	if final := result(t, ended); !errors.Is(err, final) || !strings.Contains(final.Error(), "no sidecar kept anything for 50ms while 1 messages wait") {
		t.Fatalf("%v; %v", err, final)
	}
}

func TestASidecarThatTakesNothingIsAnOutageToo(t *testing.T) {
	for what, script := range map[string]func(*talk) error{
		"no Welcome": func(k *talk) error { return errors.Join(k.greet(), k.serve()) },
		"no credit":  func(k *talk) error { return errors.Join(k.greet(), k.welcome(0, 1<<16), k.serve()) },
		"no Kept": func(k *talk) error {
			if err := errors.Join(k.greet(), k.welcome(1<<30, 1<<16)); err != nil {
				return err
			}
			for {
				if _, err := k.hear(); err != nil {
					return err
				}
			}
		},
	} {
		sidecar := startSidecar(t, script)
		config := configFor(t, sidecar.address)
		config.OutageMax = 300 * time.Millisecond
		client, ended := running(t, config)
		if err := client.Send(patient(t), message("a"), func() { t.Error("it was not kept") }); err != nil {
			t.Fatal(err)
		}
		if err := result(t, ended); !strings.Contains(err.Error(), "no sidecar kept anything") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What a broken sidecar, or something between, may say: the stream is given up, and the next one brings what was not kept.
func TestAnswersThatCannotBeEndTheStream(t *testing.T) {
	for what, lie := range map[string]func(*talk) error{
		"a number twice":            func(k *talk) error { k.told--; return k.grant(1) },
		"a number missing":          func(k *talk) error { k.told++; return k.grant(1) },
		"two Welcomes":              func(k *talk) error { return k.welcome(1, 1) },
		"what was not sent is kept": func(k *talk) error { return k.keep(99) },
		"of the key-value form":     func(k *talk) error { return k.tell(&feedpb.SidecarMessage{Body: &feedpb.SidecarMessage_Wanted{}}) },
		"nothing":                   func(k *talk) error { return k.tell(&feedpb.SidecarMessage{}) },
	} {
		sidecar := startSidecar(t, func(k *talk) error {
			if k.at > 0 {
				return healthy(k)
			}
			if err := errors.Join(k.greet(), k.welcome(1<<20, 1<<16)); err != nil {
				return err
			}
			if _, err := k.hear(); err != nil {
				return err
			}
			if err := lie(k); err != nil {
				return err
			}
			<-k.stream.Context().Done()
			return nil
		})
		client, _ := running(t, configFor(t, sidecar.address))
		if err := client.SendAndWait(patient(t), message("a")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		equal(t, what, sidecar.values(), []string{"a", "a"})
	}
}

func TestASignOfLifeComesWhenNothingIsSent(t *testing.T) {
	beats := make(chan struct{})
	sidecar := startSidecar(t, func(k *talk) error {
		k.credit = 1 << 20
		welcome := &feedpb.Welcome{Version: version, CreditBytes: 1 << 20, BatchBytes: 1 << 16, SilentMaxMs: 30}
		if err := errors.Join(k.greet(), k.tell(&feedpb.SidecarMessage{Body: &feedpb.SidecarMessage_Welcome{Welcome: welcome}})); err != nil {
			return err
		}
		for range 5 {
			received, err := k.hear()
			if err != nil {
				return err
			}
			if received.GetHeartbeat() == nil {
				return status.Errorf(codes.InvalidArgument, "%T is no heartbeat", received.Body)
			}
		}
		close(beats)
		return k.serve()
	})
	_, ended := running(t, configFor(t, sidecar.address))
	select {
	case <-beats:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("no signs of life")
	}
}

func TestASignOfLifeIsDueAfterAThirdOfTheSilence(t *testing.T) {
	spoke := time.Now()
	for what, found := range map[string]struct {
		stream stream
		due    time.Duration // 0: never
	}{
		"with credit":          {stream{welcome: &feedpb.Welcome{SilentMaxMs: 3000}, credit: 1}, time.Second},
		"without credit":       {stream{welcome: &feedpb.Welcome{SilentMaxMs: 3000}}, 0},
		"before Welcome":       {stream{credit: 1}, 0},
		"when something waits": {stream{welcome: &feedpb.Welcome{SilentMaxMs: 3000}, credit: 1, next: &feedpb.SenderMessage{}}, 0},
		"when none is asked":   {stream{welcome: &feedpb.Welcome{}, credit: 1}, 0},
	} {
		found.stream.spoke = spoke
		beat, is := found.stream.beat()
		if is != (found.due > 0) || (is && beat.Sub(spoke) != found.due) {
			t.Errorf("%s: %v, %v", what, beat.Sub(spoke), is)
		}
	}
}

func TestWhatIsKeptIsHeardWhileTheNetworkTakesNoMore(t *testing.T) {
	sidecar := startSidecar(t, func(k *talk) error {
		if err := errors.Join(k.greet(), k.welcome(1<<30, 0)); err != nil {
			return err
		}
		if _, err := k.hear(); err != nil {
			return err
		}
		if err := k.keep(k.heard); err != nil { // and reads no more: the second message does not fit into HTTP/2's window
			return err
		}
		<-k.stream.Context().Done()
		return nil
	})
	client, _ := running(t, configFor(t, sidecar.address))
	kept := make(chan struct{})
	if err := client.Send(patient(t), message("small"), func() { close(kept) }); err != nil {
		t.Fatal(err)
	}
	if err := client.Send(patient(t), message(strings.Repeat("x", 8<<20)), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-kept:
	case <-time.After(patience):
		t.Fatal("it was not heard")
	}
}

func TestCloseLeavesNothingAndCallsNothingBack(t *testing.T) {
	for what, script := range map[string]func(*talk) error{
		"before Welcome": func(k *talk) error { return errors.Join(k.greet(), k.serve()) },
		"while nothing is kept": func(k *talk) error {
			if err := errors.Join(k.greet(), k.welcome(1<<30, 1<<16)); err != nil {
				return err
			}
			<-k.stream.Context().Done()
			return nil
		},
		"refused each time": func(k *talk) error { return status.Error(codes.Unavailable, "again") },
	} {
		sidecar := startSidecar(t, script)
		config := configFor(t, sidecar.address)
		config.BufferBytesMax = 1 << 20
		client, ended := running(t, config)
		if err := client.Send(patient(t), message(strings.Repeat("x", 1<<20)), func() { t.Error("called back") }); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 2)
		go func() { waiting <- client.Send(context.Background(), message("a"), nil) }()
		go func() { waiting <- client.SendAndWait(context.Background(), message("b")) }()
		eventually(t, "a stream has begun", func() bool { return len(sidecar.talks()) > 0 })
		client.Close()
		client.Close()
		for range 2 {
			if err := <-waiting; !errors.Is(err, ErrClosed) {
				t.Errorf("%s: who waited is told %v", what, err)
			}
		}
		if err := result(t, ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Run says %v", what, err)
		}
		if err := client.Send(context.Background(), message("late"), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: Send says %v", what, err)
		}
		sidecar.server.Stop()
	}
	eventually(t, "no goroutine is left", func() bool { return ours() == 0 })
}

func TestTheEndOfRunsContextEndsTheClient(t *testing.T) {
	sidecar := startSidecar(t, healthy)
	client, err := New(configFor(t, sidecar.address))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	if err := client.SendAndWait(patient(t), message("a")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := result(t, ended); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := client.SendAndWait(context.Background(), message("b")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := client.Run(context.Background()); err == nil || errors.Is(err, context.Canceled) {
		t.Fatalf("it ran twice: %v", err)
	}
}

func TestACallbackMayCloseTheClientAndIsTheLastOne(t *testing.T) {
	ready := make(chan struct{})
	sidecar := startSidecar(t, func(k *talk) error {
		<-ready
		return healthy(k)
	})
	client, ended := running(t, configFor(t, sidecar.address))
	if err := client.Send(patient(t), message("a"), client.Close); err != nil {
		t.Fatal(err)
	}
	if err := client.Send(patient(t), message("of the same batch"), func() { t.Error("called back") }); err != nil {
		t.Fatal(err)
	}
	close(ready)
	if err := result(t, ended); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestTheTokenGoesOverTLS(t *testing.T) {
	certificate, authority := selfSigned(t)
	server := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}})
	sidecar := startSidecar(t, func(k *talk) error {
		if found := k.metadata.Get("authorization"); len(found) != 1 || found[0] != "Bearer secret" {
			return status.Errorf(codes.Unauthenticated, "authorization is %q", found)
		}
		return healthy(k)
	}, grpc.Creds(server))
	config := configFor(t, sidecar.address)
	config.TLS = &tls.Config{RootCAs: authority}
	_, ended := running(t, config)
	if err := result(t, ended); status.Code(err) != codes.Unauthenticated {
		t.Fatal(err)
	}
	config.Token = "secret"
	client, _ := running(t, config)
	if err := client.SendAndWait(patient(t), message("a")); err != nil {
		t.Fatal(err)
	}
}

// Each end of a handshake says which file is to be changed, and ends Run.
func TestWhoIsNotTrustedIsToldAndEndsTheClient(t *testing.T) {
	certificate, authority := selfSigned(t)
	asking := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority}
	secured := startSidecar(t, healthy, grpc.Creds(credentials.NewTLS(asking)))
	plain := startSidecar(t, healthy)
	stranger, strangers := selfSigned(t)
	for what, given := range map[string]struct {
		address string
		config  *tls.Config
		says    string
	}{
		"no certificate":      {secured.address, &tls.Config{RootCAs: authority}, "push.tls.ca_file"},
		"another certificate": {secured.address, &tls.Config{RootCAs: authority, Certificates: []tls.Certificate{stranger}}, "push.tls.ca_file"},
		"another authority":   {secured.address, &tls.Config{RootCAs: strangers, Certificates: []tls.Certificate{certificate}}, "its certificate is not trusted here"},
		"no TLS there":        {plain.address, &tls.Config{RootCAs: authority}, "it does not speak TLS"},
	} {
		config := configFor(t, given.address)
		config.TLS = given.config
		client, ended := running(t, config)
		if err := result(t, ended); !strings.Contains(err.Error(), given.says) || !strings.Contains(err.Error(), given.address) {
			t.Errorf("%s: %v", what, err)
		}
		if err := client.Send(patient(t), message("a"), nil); err == nil {
			t.Errorf("%s: Send goes on", what)
		}
	}
}

// gRPC's servers in C and Python do not say that they refuse a certificate: they end the connection. So does one that dies at that moment.
func TestAConnectionThatEndsAfterTheHandshakeIsDistrustTheThirdTime(t *testing.T) {
	certificate, authority := selfSigned(t)
	for ends, goesOn := range map[int]bool{distrustMax - 1: true, distrustMax: false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		secured := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}}
		server := grpc.NewServer(grpc.Creds(credentials.NewTLS(secured)))
		feedpb.RegisterKvFeedServer(server, &sidecar{script: healthy})
		served := make(chan struct{})
		go func() {
			defer close(served)
			for range ends {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				_ = tls.Server(connection, secured).Handshake()
				_ = connection.Close()
			}
			_ = server.Serve(listener)
		}()
		config := configFor(t, refusing(t), listener.Addr().String())
		config.TLS = &tls.Config{RootCAs: authority}
		client, _ := running(t, config)
		err = client.SendAndWait(patient(t), message("a"))
		if goesOn && err != nil || !goesOn && (err == nil || !strings.Contains(err.Error(), "push.tls.ca_file")) {
			t.Errorf("after %d: %v", ends, err)
		}
		client.Close()
		_ = listener.Close()
		server.Stop()
		<-served
	}
}

// What stands before the sidecar takes connections and ends them while it is away: that is an outage.
func TestAConnectionThatEndsBeforeTheHandshakeIsNoDistrust(t *testing.T) {
	certificate, authority := selfSigned(t)
	sidecar := startSidecar(t, healthy, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}})))
	network := startNetwork(t, "", 0)
	config := configFor(t, network.address)
	config.TLS = &tls.Config{RootCAs: authority}
	client, _ := running(t, config)
	sent := make(chan error, 1)
	go func() { sent <- client.SendAndWait(patient(t), message("a")) }()
	eventually(t, "it tried more often than it would be distrusted", func() bool { return network.met.Load() > 2*distrustMax })
	network.lead(sidecar.address)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(encoded)
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key}, authority
}
