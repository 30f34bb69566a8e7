package sinkuri

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ticdcdump/push"
	"ticdcdump/push/internal/front"
)

const patience = 120 * time.Second

// A sidecar that asks for certificates and a token: who brings both is served; everybody else's client ends soon, with what is wrong and where
// to change it.
func TestTheProductAsksForACertificateAndAToken(t *testing.T) {
	product := front.Start(t, "--secure")
	if product == nil {
		return
	}
	file := func(name string) string { return filepath.Join(product.Folder, "tls", name) }
	right := map[string]string{"ca": file("test-ca.pem"), "cert": file("node.crt"), "key": file("node.key"), "token-file": file("token")}
	if err := send(t, product.Address, right); err != nil {
		t.Fatal(err)
	}
	for what, wrong := range map[string]struct {
		given map[string]string // "": left out
		says  string
		code  codes.Code
	}{
		"another authority's sidecar": {map[string]string{"ca": file("other-ca.pem")}, "give ca the CA", codes.Unavailable},
		"another authority's node":    {map[string]string{"cert": file("stranger.crt"), "key": file("stranger.key")}, "push.tls.ca_file", codes.Unavailable},
		"an expired node":             {map[string]string{"cert": file("expired.crt"), "key": file("expired.key")}, "push.tls.ca_file", codes.Unavailable},
		"no certificate":              {map[string]string{"cert": "", "key": ""}, "push.tls.ca_file", codes.Unavailable},
		"another token":               {map[string]string{"token-file": file("other-token")}, "push.token_file", codes.Unauthenticated},
		"no token":                    {map[string]string{"token-file": ""}, "push.token_file", codes.Unauthenticated},
	} {
		given := map[string]string{}
		for name, path := range right {
			if changed, is := wrong.given[name]; is {
				path = changed
			}
			if path != "" {
				given[name] = path
			}
		}
		err := send(t, product.Address, given)
		if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), wrong.says) || status.Code(err) != wrong.code ||
			!strings.Contains(err.Error(), product.Address) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := send(t, product.Address, right); err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	if values := product.Values(); len(values) > 2 {
		t.Errorf("%q were kept", values)
	}
}

// send is what a sink with that URI ends with, or nil if its message is kept.
func send(t *testing.T, address string, given map[string]string) error {
	t.Helper()
	uri := fmt.Sprintf("ticdc-dump://%s/orders?protocol=open-protocol", address)
	for name, path := range given {
		uri += "&" + name + "=" + path
	}
	config, err := Client(parse(t, uri), front.Changefeed, "node")
	if err != nil {
		t.Fatal(err)
	}
	config.Logf = t.Logf
	client, err := push.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	sent := client.SendAndWait(ctx, push.Message{Topic: "orders", Value: []byte("value")})
	client.Close()
	if run := <-ended; sent != nil && !errors.Is(sent, run) {
		t.Errorf("Send says %v, Run %v", sent, run)
	}
	return sent
}
