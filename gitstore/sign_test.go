package gitstore

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/sluice-gitops/sluice/internal/signers"
)

// signed pushes a signed commit to a new repository, and returns the repository, the commit and the signed content.
func signed(t *testing.T, signer Signer) (bare string, unsigned []byte, signature string) {
	t.Helper()
	bare = t.TempDir()
	runGit(t, bare, "init", "-q", "--bare")
	s := open(t, Options{Dir: bare})
	w := writer(t, s)
	tree, err := w.Tree(nil)
	if err != nil {
		t.Fatal(err)
	}
	who := Signature{"S", "s@example.com", time.Unix(1700000000, 0).UTC()}
	spec := CommitSpec{Tree: tree, Author: who, Committer: who, Message: "signed\n\nbody\n"}
	if unsigned, err = encodeCommit(spec); err != nil {
		t.Fatal(err)
	}
	spec.Signer = signer
	h, err := w.Commit(spec)
	if err != nil {
		t.Fatal(err)
	}
	push(t, s.Local(), w, Move{"env/dev", Hash{}, h})
	runGit(t, bare, "fsck", "--strict")
	head, rest, ok := strings.Cut(runGit(t, bare, "cat-file", "commit", "env/dev")+"\n", "gpgsig ")
	signature, message, ok2 := strings.Cut(rest, "\n\n")
	if lines := strings.Split(signature, "\n"); !ok || !ok2 || head+"\n"+message != string(unsigned) || len(lines) < 3 {
		t.Fatalf("the commit is\n%sgpgsig %s", head, rest)
	}
	signature = strings.ReplaceAll(signature, "\n ", "\n") + "\n"
	_, stranger := newKey(t)
	private, err := os.ReadFile(stranger)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewSigner(private, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, by := range []Signer{signer, other} {
		if got, err := SignedBy(t.Context(), s, h, by); err != nil || got != (i == 0) {
			t.Errorf("signed by %T: %t, %v", by, got, err)
		}
	}
	if signer.Verify(append(unsigned, ' '), signature) == nil {
		t.Error("a signature of another text is accepted")
	}
	return bare, unsigned, signature
}

// found reports whether a program is installed. A library checks the same signature in any case.
func found(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func TestSSHSignaturesVerify(t *testing.T) {
	key, file := newKey(t)
	private, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	public := ssh.MarshalAuthorizedKey(key.PublicKey())
	fromFile, err := NewSigner(private, "")
	if err != nil {
		t.Fatal(err)
	}
	socket := sshAgent(t, private)
	fromAgent, err := NewAgentSigner(socket, public)
	if err != nil {
		t.Fatal(err)
	}
	for _, signer := range []Signer{fromFile, fromAgent} {
		bare, unsigned, armoured := signed(t, signer)
		signature, err := sshsig.Unarmor([]byte(armoured))
		if err != nil {
			t.Fatal(err)
		}
		if err := sshsig.Verify(bytes.NewReader(unsigned), signature, key.PublicKey(), signature.HashAlgorithm,
			"git"); err != nil {
			t.Error(err)
		}
		if found("ssh-keygen") {
			write(t, bare, "allowed", "s@example.com "+string(public))
			runGit(t, bare, "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+filepath.Join(bare, "allowed"),
				"verify-commit", "env/dev")
		}
	}
	stranger, _ := newKey(t)
	for _, c := range []struct{ socket, key string }{
		{"", string(public)},
		{socket, "no key"},
		{socket + "x", string(public)},
		{socket, string(ssh.MarshalAuthorizedKey(stranger.PublicKey()))},
	} {
		if _, err := NewAgentSigner(c.socket, []byte(c.key)); err == nil {
			t.Errorf("%q and %q were taken", c.socket, c.key)
		}
	}
}

// sshAgent is an agent that holds a key.
func sshAgent(t *testing.T, private []byte) string {
	t.Helper()
	parsed, err := ssh.ParseRawPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: parsed}); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }()
		}
	}()
	return listener.Addr().String()
}

func TestOpenPGPSignaturesVerify(t *testing.T) {
	entity, err := openpgp.NewEntity("Sluice", "", "s@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		t.Fatal(err)
	}
	armoured := func(encrypt bool) []byte {
		var out bytes.Buffer
		w, err := armor.Encode(&out, openpgp.PrivateKeyType, nil)
		if err != nil {
			t.Fatal(err)
		}
		if encrypt {
			if err := entity.EncryptPrivateKeys([]byte("pass"), nil); err != nil {
				t.Fatal(err)
			}
			err = entity.SerializePrivateWithoutSigning(w, nil)
		} else {
			err = entity.SerializePrivate(w, nil)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	plain := armoured(false)
	var public bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	locked := armoured(true)
	for _, c := range []struct {
		key        []byte
		passphrase string
		ok         bool
	}{
		{plain, "", true},
		{locked, "pass", true},
		{locked, "", false},
		{locked, "wrong", false},
		{[]byte("no key"), "", false},
		{nil, "", false},
	} {
		signer, err := NewSigner(c.key, c.passphrase)
		if (err == nil) != c.ok {
			t.Fatalf("%q: the error is %v", c.passphrase, err)
		}
		if !c.ok {
			continue
		}
		checkOpenPGP(t, signer, public.Bytes())
	}
}

func checkOpenPGP(t *testing.T, signer Signer, public []byte) {
	t.Helper()
	bare, unsigned, signature := signed(t, signer)
	ring, err := openpgp.ReadKeyRing(bytes.NewReader(public))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openpgp.CheckArmoredDetachedSignature(ring, bytes.NewReader(unsigned), strings.NewReader(signature),
		nil); err != nil {
		t.Error(err)
	}
	if !found("gpg") {
		return
	}
	t.Setenv("GNUPGHOME", t.TempDir())
	write(t, bare, "public", string(public))
	if out, err := exec.CommandContext(t.Context(), "gpg", "--batch", "--no-autostart", "--import",
		filepath.Join(bare, "public")).CombinedOutput(); err != nil {
		t.Fatalf("the error is %v\nthe output is\n%s", err, out)
	}
	if out := runGit(t, bare, "verify-commit", "-v", "env/dev"); !strings.Contains(out, "Good signature") {
		t.Error(out)
	}
}

// Git and this package name the same signer of a commit.
func TestVerifySignature(t *testing.T) {
	dir := source(t)
	key, file := newKey(t)
	line := "ana@example.com " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	allowed, err := signers.Parse([]string{line})
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newKey(t)
	strangers, err := signers.Parse([]string{"bob@example.com " +
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other.PublicKey())))})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: dir})
	unsigned := resolve(t, s, "HEAD").Hash
	private, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := NewSigner(private, "")
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	who := Signature{"S", "s@example.com", time.Unix(1700000000, 0).UTC()}
	ours, err := w.Commit(CommitSpec{
		Tree: resolve(t, s, "HEAD").Tree, Author: who, Committer: who,
		Message: "a\n\nb\n\nSluice-Source: x\n", Signer: signer,
	})
	if err != nil {
		t.Fatal(err)
	}
	commits := []Hash{ours}
	if found("ssh-keygen") {
		runGit(t, dir, "-c", "gpg.format=ssh", "-c", "user.signingkey="+file, "commit", "-q", "-S", "--allow-empty",
			"-m", "signed by git")
		commits = append(commits, resolve(t, s, "HEAD").Hash)
	}
	for _, h := range commits {
		if who, err := s.VerifySignature(t.Context(), h, allowed); err != nil || who != "ana@example.com" {
			t.Errorf("%s: the who is %q, the error is %v", h, who, err)
		}
		if _, err := s.VerifySignature(t.Context(), h, strangers); !errors.Is(err, ErrUnverified) ||
			!strings.Contains(err.Error(), h.String()) {
			t.Errorf("a stranger's key: %v", err)
		}
		o, err := s.readLocal(h)
		if err != nil {
			t.Fatal(err)
		}
		forged := s.keep("commit", bytes.Replace(o.Data, []byte("committer "), []byte("committer Mallory "), 1))
		if _, err := s.VerifySignature(t.Context(), forged, allowed); !errors.Is(err, ErrUnverified) {
			t.Errorf("a changed commit: %v", err)
		}
	}
	if _, err := s.VerifySignature(t.Context(), unsigned, allowed); !errors.Is(err, ErrUnverified) ||
		!strings.Contains(err.Error(), "not signed") {
		t.Errorf("an unsigned commit: %v", err)
	}
	if _, err := s.VerifySignature(t.Context(), Hash{1}, allowed); errors.Is(err, ErrUnverified) ||
		!errors.Is(err, ErrNotFound) {
		t.Errorf("a missing commit: %v", err)
	}
}
