// send-recording plays a recorded Kafka changefeed (tests/recordings/README.md) to a sidecar's push feed of the form "messages", as so many
// nodes of TiCDC would: see play. It ends with 0 when all of it is kept.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"ticdcdump/push"
)

type options struct {
	to, changefeed, recording, feed string
	tokenFile, ca, cert, key        string
	senders                         int
	outageMax                       time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "send-recording:", err)
		}
		os.Exit(1)
	}
}

func command(ctx context.Context, arguments []string, out, log io.Writer) error {
	given, err := parse(arguments, log)
	if err != nil {
		return err
	}
	lanes, err := read(given.recording, given.feed)
	if err != nil {
		return err
	}
	config, err := given.config(log)
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	clients, err := start(ctx, cancel, config, given.senders)
	if err != nil {
		return err
	}
	defer clients.wait()
	defer cancel(nil)
	played, err := play(ctx, lanes, clients.senders)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "kept: %d messages, %d of them marks and DDLs, %d bytes, in %.3f s\n", played.messages, played.marks, played.bytes,
		time.Since(began).Seconds())
	return err
}

func parse(arguments []string, log io.Writer) (options, error) {
	var given options
	flags := flag.NewFlagSet("send-recording", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&given.to, "to", "127.0.0.1:8312", "`host:port,…` of the sidecars: push.listen of each")
	flags.StringVar(&given.changefeed, "changefeed", "", "`cluster/namespace/id`, as the sidecar's settings name it")
	flags.StringVar(&given.recording, "recording", "", "`folder` with recording.json and kafka/")
	flags.StringVar(&given.feed, "feed", "open-protocol", "`name` of a Kafka changefeed of the recording")
	flags.StringVar(&given.tokenFile, "token-file", "", "`file` with the token of the sidecar's push.token_file")
	flags.StringVar(&given.ca, "ca", "", "`file` with the authority of the sidecar's certificate: use TLS")
	flags.StringVar(&given.cert, "cert", "", "`file` with a certificate, for mutual TLS")
	flags.StringVar(&given.key, "key", "", "`file` with its key")
	flags.IntVar(&given.senders, "senders", 1, "split the partitions over so many clients")
	flags.DurationVar(&given.outageMax, "outage-max", 0, "give up when nothing was kept for so long (default 10m)")
	if err := flags.Parse(arguments); err != nil {
		return given, err
	}
	switch {
	case flags.NArg() > 0:
		return given, fmt.Errorf("%q is no flag", flags.Arg(0))
	case given.recording == "":
		return given, errors.New("give --recording FOLDER")
	case given.senders < 1:
		return given, errors.New("--senders is at least 1")
	case (given.cert == "") != (given.key == "") || (given.cert != "" && given.ca == ""):
		return given, errors.New("--cert and --key go together, and with --ca")
	}
	return given, nil
}

func (given *options) config(log io.Writer) (push.Config, error) {
	config := push.Config{Addresses: strings.Split(given.to, ","), Changefeed: given.changefeed, OutageMax: given.outageMax}
	var lock sync.Mutex
	config.Logf = func(format string, arguments ...any) {
		lock.Lock()
		defer lock.Unlock()
		fmt.Fprintf(log, format+"\n", arguments...)
	}
	if given.tokenFile != "" {
		token, err := os.ReadFile(given.tokenFile)
		if err != nil {
			return config, err
		}
		config.Token = strings.TrimSpace(string(token))
	}
	if given.ca == "" {
		return config, nil
	}
	authority, err := os.ReadFile(given.ca)
	if err != nil {
		return config, err
	}
	config.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.TLS.RootCAs.AppendCertsFromPEM(authority) {
		return config, fmt.Errorf("%s holds no certificate", given.ca)
	}
	if given.cert != "" {
		own, err := tls.LoadX509KeyPair(given.cert, given.key)
		if err != nil {
			return config, err
		}
		config.TLS.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// clients run until ctx is done; one that ends by itself ends it for all, and is the cause.
type clients struct {
	senders []sender
	running sync.WaitGroup
}

func start(ctx context.Context, cancel context.CancelCauseFunc, config push.Config, count int) (*clients, error) {
	started := &clients{}
	for number := range count {
		config.Sender = fmt.Sprintf("send-recording-%d", number)
		client, err := push.New(config)
		if err != nil {
			cancel(err)
			return nil, err
		}
		started.senders = append(started.senders, client)
		started.running.Go(func() { cancel(client.Run(ctx)) })
	}
	return started, nil
}

func (c *clients) wait() { c.running.Wait() }
