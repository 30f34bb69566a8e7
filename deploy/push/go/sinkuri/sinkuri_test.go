package sinkuri

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	uri, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return uri
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pair writes a certificate and its key.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	body, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: body}))),
		file(t, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
}

func TestAllSidecarsOfTheURIAreKnown(t *testing.T) {
	config, err := Client(parse(t, "ticdc-dump://a:8312,b:8313/orders?protocol=open-protocol&partition-num=3&outage-max=90s"), "default/default/orders", "capture")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Addresses, []string{"a:8312", "b:8313"}) || config.Changefeed != "default/default/orders" || config.Sender != "capture" {
		t.Fatalf("%+v", config)
	}
	if config.OutageMax != 90*time.Second {
		t.Fatal(config.OutageMax)
	}
	if config.TLS != nil || config.Token != "" {
		t.Fatalf("nothing asked for TLS or a token: %+v", config)
	}
}

func TestFilesGiveTheTokenAndTheCertificates(t *testing.T) {
	cert, key := pair(t)
	uri := parse(t, "ticdc-dump://a:8312/orders?token-file="+file(t, "secret\n")+"&ca="+cert+"&cert="+cert+"&key="+key)
	config, err := Client(uri, "default/default/orders", "capture")
	if err != nil {
		t.Fatal(err)
	}
	if config.Token != "secret" || config.TLS == nil || len(config.TLS.Certificates) != 1 || config.TLS.RootCAs == nil {
		t.Fatalf("%+v", config)
	}
	if config.TLS.InsecureSkipVerify {
		t.Fatal("the sidecar's certificate is checked")
	}
}

func TestAServerCertificateAndATokenAreEnough(t *testing.T) {
	cert, _ := pair(t)
	config, err := Client(parse(t, "ticdc-dump://a:8312/orders?ca="+cert+"&token-file="+file(t, "secret")), "default/default/orders", "capture")
	if err != nil {
		t.Fatal(err)
	}
	if config.TLS == nil || len(config.TLS.Certificates) != 0 || config.Token != "secret" {
		t.Fatalf("%+v", config)
	}
}

func TestOnLoopbackATokenMayGoInPlainText(t *testing.T) {
	for _, host := range []string{"127.0.0.1:8312", "localhost:8312", "[::1]:8312"} {
		config, err := Client(parse(t, "ticdc-dump://"+host+"/orders?token-file="+file(t, "secret")), "default/default/orders", "capture")
		if err != nil || config.Token != "secret" {
			t.Fatalf("%s: %v", host, err)
		}
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	cert, key := pair(t)
	secret, empty, none := file(t, "secret"), file(t, "\n"), filepath.Join(t.TempDir(), "none")
	for uri, expected := range map[string]string{
		"ticdc-dump:///orders":                                                   `the address "" is not host:port`,
		"ticdc-dump://a/orders":                                                  `the address "a" is not host:port`,
		"ticdc-dump://b,a:8312/orders":                                           `the address "b" is not host:port`,
		"ticdc-dump://user:word@a:8312/orders":                                   "give token-file, or cert and key",
		"ticdc-dump://a:8312/orders?token-file=" + secret:                        "in plain text",
		"ticdc-dump://127.0.0.1:8312,a:8312/orders?token-file=" + secret:         "in plain text",
		"ticdc-dump://127.0.0.1:8312/orders?token-file=" + empty:                 "is empty",
		"ticdc-dump://127.0.0.1:8312/orders?token-file=" + none:                  "no such file",
		"ticdc-dump://127.0.0.1:8312/orders?token-file=":                         "token-file is empty",
		"ticdc-dump://127.0.0.1:8312/orders?token-file=" + file(t, "a\nb"):       "not printable ASCII",
		"ticdc-dump://a:8312/orders?cert=" + cert + "&ca=" + cert:                "cert and key belong together",
		"ticdc-dump://a:8312/orders?key=" + key + "&ca=" + cert:                  "cert and key belong together",
		"ticdc-dump://a:8312/orders?cert=" + cert + "&key=" + key:                "without ca",
		"ticdc-dump://a:8312/orders?ca=" + secret:                                "no certificate in PEM",
		"ticdc-dump://a:8312/orders?ca=" + none:                                  "no such file",
		"ticdc-dump://a:8312/orders?ca=" + cert + "&cert=" + key + "&key=" + key: "cert and key (",
		"ticdc-dump://a:8312/orders?ca=" + cert + "&ca=" + cert:                  "ca is given 2 times",
		"ticdc-dump://a:8312/orders?partition-num=3&partition-num=4":             "partition-num is given 2 times",
		"ticdc-dump://a:8312/orders?kafka-version=2.4.0":                         "kafka-version is of Kafka's brokers",
		"ticdc-dump://a:8312/orders?sasl-user=me":                                "sasl-user is of Kafka's brokers",
		"ticdc-dump://a:8312/orders?insecure-skip-verify=true":                   "insecure-skip-verify is of Kafka's brokers",
		"ticdc-dump://a:8312/orders?outage-max=10":                               "outage-max is \"10\"",
		"ticdc-dump://a:8312/orders?outage-max=-1s":                              "outage-max is \"-1s\"",
		"ticdc-dump://a:8312/orders?token-file=%zz":                              "invalid URL escape",
	} {
		_, err := Client(parse(t, uri), "default/default/orders", "capture")
		if err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: expected %q, got %v", uri, expected, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the token is in %v", err)
		}
	}
}

func TestTheKafkaSinkReadsTheRestOfTheURI(t *testing.T) {
	uri := parse(t, "ticdc-dump://a:8312,b:8312/orders?protocol=canal-json&partition-num=5&enable-tidb-extension=true&token-file=/t&ca=/ca&cert=/cert&key=/key&outage-max=90s")
	rest := ForKafka(uri)
	if rest.Host != uri.Host || rest.Path != uri.Path || rest.Scheme != Scheme {
		t.Fatal(rest)
	}
	if query := rest.Query(); len(query) != 3 || query.Get("protocol") != "canal-json" || query.Get("partition-num") != "5" {
		t.Fatal(rest)
	}
	if uri.Query().Get("ca") != "/ca" {
		t.Fatal("the URI itself was changed")
	}
	kafka := parse(t, "kafka://a:9092/orders?ca=/ca&cert=/cert&key=/key")
	if Is(kafka) || ForKafka(kafka) != kafka {
		t.Fatal("a URI of Kafka is left as it is")
	}
}
