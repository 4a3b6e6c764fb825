package gitstore

import (
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshServer runs Git's commands for clients that have the key.
func sshServer(tb testing.TB, host ssh.Signer, client ssh.PublicKey) net.Addr {
	tb.Helper()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions,
		error,
	) {
		if string(key.Marshal()) != string(client.Marshal()) {
			return nil, io.EOF
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(host)
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveSSH(conn, config)
		}
	}()
	return listener.Addr()
}

func serveSSH(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for incoming := range channels {
		channel, requests, err := incoming.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				if r.Type != "exec" {
					continue
				}
				var command struct{ Text string }
				_ = ssh.Unmarshal(r.Payload, &command)
				_ = r.Reply(true, nil)
				cmd := exec.CommandContext(context.Background(), "sh", "-c", command.Text)
				cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
				_ = cmd.Run()
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{0}))
				_ = channel.Close()
			}
		}()
	}
}

func TestSSH(t *testing.T) {
	_, bare := bareRepo(t)
	host, _ := newKey(t)
	stranger, strangerFile := newKey(t)
	client, clientFile := newKey(t)
	addr := sshServer(t, host, client.PublicKey())
	dir := t.TempDir()
	write(t, dir, "known", knownhosts.Line([]string{addr.String()}, host.PublicKey())+"\n")
	write(t, dir, "other", knownhosts.Line([]string{addr.String()}, stranger.PublicKey())+"\n")
	write(t, dir, "empty", "")
	s := open(t, Options{Dir: source(t)})
	place := func(key, known string) error {
		b, err := s.Remote("ssh://git@"+addr.String()+bare, Auth{
			SSHKeyFile:      key,
			KnownHostsFiles: []string{filepath.Join(dir, known)},
		})
		if err != nil {
			return err
		}
		w := writer(t, s)
		got, err := b.Push(t.Context(), w, []Move{{"env/dev", Hash{}, commitOf(t, w, "one")}}, PushOptions{})
		if err == nil && got[0].State != Updated {
			t.Errorf("the result of Push is %+v", got)
		}
		return err
	}
	for _, c := range []struct{ key, known, want string }{
		{clientFile, "empty", "ssh-keyscan -p"},
		{clientFile, "other", "ssh-keyscan -p"},
		{clientFile, "missing", "known_hosts"},
		{strangerFile, "known", "unable to authenticate"},
		{filepath.Join(dir, "empty"), "known", "SSH key"},
	} {
		if err := place(c.key, c.known); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v", c.key, c.known, err)
		}
	}
	if refs := runGit(t, bare, "for-each-ref"); refs != "" {
		t.Fatalf("there are %s", refs)
	}
	if err := place(clientFile, "known"); err != nil {
		t.Fatal(err)
	}
	runGit(t, bare, "fsck", "--strict")
}
