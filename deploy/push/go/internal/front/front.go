// Package front runs the sidecar's front for TiCDC's own sinks (tests/support/push_server.py) as a process, for the tests of this module.
package front

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Changefeed is the one that it serves.
const Changefeed = "default/default/test"

// Front is a process of the product, and those that follow it on the same folder.
type Front struct {
	Folder  string
	Address string // of the process that runs

	t       testing.TB
	python  string
	root    string
	options []string
	command *exec.Cmd
	ended   chan struct{}
	stdin   interface{ Write([]byte) (int, error) }
	log     lockedLog
}

// Start runs one with the checkout's Python, which TICDC_DUMP_PYTHON names; nil where it names none, and then the test says that it did
// not run. The process ends with the test.
func Start(t testing.TB, options ...string) *Front {
	t.Helper()
	python := os.Getenv("TICDC_DUMP_PYTHON")
	if python == "" {
		t.Log("NOT RUN against the product: TICDC_DUMP_PYTHON names no Python (make test sets it)")
		return nil
	}
	f := &Front{Folder: t.TempDir(), t: t, python: python, root: root(t), options: options}
	t.Cleanup(f.Kill)
	f.Again()
	return f
}

// Again runs one where a former one was killed, on its folder. It listens elsewhere.
func (f *Front) Again() {
	f.t.Helper()
	arguments := append([]string{"-m", "tests.support.push_server", "--folder", f.Folder, "--changefeed", Changefeed}, f.options...)
	f.command, f.ended = exec.Command(f.python, arguments...), make(chan struct{})
	f.command.Dir, f.command.Stderr = f.root, &f.log
	stdin, err := f.command.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	stdout, err := f.command.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.command.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.stdin = stdin
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	go func(command *exec.Cmd, ended chan struct{}) { defer close(ended); _ = command.Wait() }(f.command, f.ended)
	address, is := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	if !is {
		f.t.Fatalf("the front says %q: %s", line, f.log.String())
	}
	f.Address = address
}

// Kill is SIGKILL, and waits until the process is gone.
func (f *Front) Kill() {
	if f.command != nil && f.command.Process != nil {
		_ = f.command.Process.Kill()
		<-f.ended
	}
}

// Freeze stops the process; its connections stay. Thaw lets it go on.
func (f *Front) Freeze() { f.signal(syscall.SIGSTOP) }

// Thaw lets a frozen one go on.
func (f *Front) Thaw() { f.signal(syscall.SIGCONT) }

func (f *Front) signal(signal os.Signal) {
	f.t.Helper()
	if err := f.command.Process.Signal(signal); err != nil {
		f.t.Fatal(err)
	}
}

// Read lets one that was started with --unread begin to read.
func (f *Front) Read() {
	f.t.Helper()
	if _, err := f.stdin.Write([]byte("read\n")); err != nil {
		f.t.Fatal(err)
	}
}

// Values are of the messages that it has kept and read, in its order.
func (f *Front) Values() []string {
	f.t.Helper()
	written, err := os.ReadFile(filepath.Join(f.Folder, "messages.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatal(err)
	}
	var values []string
	for _, line := range bytes.Split(written[:bytes.LastIndexByte(written, '\n')+1], []byte("\n")) {
		var message struct{ Value string }
		if len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &message); err != nil {
			f.t.Fatal(err)
		}
		value, err := hex.DecodeString(message.Value)
		if err != nil {
			f.t.Fatal(err)
		}
		values = append(values, string(value))
	}
	return values
}

func root(t testing.TB) string {
	t.Helper()
	for at, err := filepath.Abs("."); err == nil && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "tests", "support", "push_server.py")); err == nil {
			return at
		}
	}
	t.Fatal("no folder above has tests/support/push_server.py")
	return ""
}

// lockedLog is what the processes say on stderr.
type lockedLog struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (l *lockedLog) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(data)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}
