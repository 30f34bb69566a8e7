// Package sinkuri reads the sink URI of a changefeed whose messages go to a sidecar:
//
//	ticdc-dump://host:port[,host:port]/topic?protocol=open-protocol&partition-num=3&token-file=…&ca=…&cert=…&key=…
//
// It is what TiCDC's Kafka sink has, but for the way to the other side: that is this package's part of the URI, the rest is TiCDC's.
package sinkuri

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"ticdcdump/push"
)

// Scheme of such a URI.
const Scheme = "ticdc-dump"

// PartitionsDefault is the number of a topic's partitions where partition-num is not given: TiCDC's own, for a topic that it creates.
const PartitionsDefault = 3

// ours are the parameters of the way to the sidecar.
var ours = []string{"token-file", "ca", "cert", "key", "outage-max"}

// brokers are parameters of kafka:// that would have no effect here; whoever gives one expects something of it.
var brokers = []string{
	"auto-create-topic", "compression", "dial-timeout", "enable-tls", "insecure-skip-verify", "kafka-client-id", "kafka-version",
	"max-retry", "read-timeout", "replication-factor", "required-acks", "write-timeout",
}

// Is says whether the URI is one of ours.
func Is(uri *url.URL) bool { return strings.EqualFold(uri.Scheme, Scheme) }

// ForKafka is the URI as TiCDC's Kafka sink reads it: without the parameters that are read here. Another scheme's is left as it is.
func ForKafka(uri *url.URL) *url.URL {
	if !Is(uri) {
		return uri
	}
	query := uri.Query()
	for _, name := range ours {
		query.Del(name)
	}
	rest := *uri
	rest.RawQuery = query.Encode()
	return &rest
}

// Client gives the settings of a client that sends to the URI's sidecars. It reads the files that the URI names, and connects to nobody:
// a sidecar begins when it finds the changefeed.
func Client(uri *url.URL, changefeed, sender string) (push.Config, error) {
	query, err := parameters(uri)
	if err != nil {
		return push.Config{}, err
	}
	config := push.Config{Addresses: strings.Split(uri.Host, ","), Changefeed: changefeed, Sender: sender}
	if config.TLS, err = secure(query); err != nil {
		return push.Config{}, err
	}
	if config.Token, err = token(query.Get("token-file")); err != nil {
		return push.Config{}, err
	}
	if config.OutageMax, err = outage(query.Get("outage-max")); err != nil {
		return push.Config{}, err
	}
	if config.Token != "" && config.TLS == nil && !loopback(config.Addresses) {
		return push.Config{}, fmt.Errorf("sink uri: token-file without ca: the token would go to %s in plain text; give the CA of the sidecar's push.tls", uri.Host)
	}
	if _, err := push.New(config); err != nil {
		return push.Config{}, fmt.Errorf("sink uri: %w", err)
	}
	return config, nil
}

func parameters(uri *url.URL) (url.Values, error) {
	if uri.User != nil {
		return nil, fmt.Errorf("sink uri: no user or password is asked for in %s:// URIs; give token-file, or cert and key", Scheme)
	}
	query, err := url.ParseQuery(uri.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("sink uri: %w", err)
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, fmt.Errorf("sink uri: %s is given %d times; give it once", name, len(values))
		}
	}
	for _, name := range ours {
		if query.Has(name) && query.Get(name) == "" {
			return nil, fmt.Errorf("sink uri: %s is empty; give it a value, or leave it out", name)
		}
	}
	for name := range query {
		if strings.HasPrefix(name, "sasl-") {
			return nil, ofBrokers(name)
		}
	}
	for _, name := range brokers {
		if query.Has(name) {
			return nil, ofBrokers(name)
		}
	}
	return query, nil
}

func ofBrokers(name string) error {
	return fmt.Errorf("sink uri: %s is of Kafka's brokers, there are none here; leave it out", name)
}

// secure is nil without ca and cert: plain text.
func secure(query url.Values) (*tls.Config, error) {
	ca, cert, key := query.Get("ca"), query.Get("cert"), query.Get("key")
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("sink uri: cert and key belong together; give both, or neither (the sidecar then asks for a token)")
	}
	if ca == "" {
		if cert != "" {
			return nil, fmt.Errorf("sink uri: cert and key without ca; give the CA of the sidecar's push.tls")
		}
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("sink uri: ca: %w", err)
	}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("sink uri: ca: there is no certificate in PEM in %s", ca)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("sink uri: cert and key (%s, %s): %w", cert, key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func token(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("sink uri: token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("sink uri: token-file: %s is empty", path)
	}
	return token, nil
}

// outage is 0, the client's own, where none is given.
func outage(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	outage, err := time.ParseDuration(text)
	if err != nil || outage <= 0 {
		return 0, fmt.Errorf("sink uri: outage-max is %q; expected how long nothing may be kept, such as 10m or 90s", text)
	}
	return outage, nil
}

func loopback(addresses []string) bool {
	for _, address := range addresses {
		host, _, _ := net.SplitHostPort(address)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
