package signers

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

func newSigner(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

func sign(t *testing.T, s ssh.Signer, payload, namespace string) string {
	t.Helper()
	signature, err := sshsig.Sign(strings.NewReader(payload), s, sshsig.HashSHA512, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return string(sshsig.Armor(signature))
}

func TestVerify(t *testing.T) {
	ana, anaKey := newSigner(t)
	_, otherKey := newSigner(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, line, payload, namespace string
		ok                             bool
	}{
		{"allowed", "ana@example.com " + anaKey, "x", "git", true},
		{"several names and a comment", "ana@example.com,a@b " + anaKey + " laptop", "x", "git", true},
		{"quoted name", `"ana@example.com" ` + anaKey, "x", "git", true},
		{"namespace git", `ana@example.com namespaces="file,git" ` + anaKey, "x", "git", true},
		{"other namespace of the line", `ana@example.com namespaces="file" ` + anaKey, "x", "git", false},
		{"other namespace of the signature", "ana@example.com " + anaKey, "x", "file", false},
		{"other content", "ana@example.com " + anaKey, "y", "git", false},
		{"other key", "bob@example.com " + otherKey, "x", "git", false},
		{"in its time", `ana@example.com valid-after="20260101",valid-before="20270101Z" ` + anaKey, "x", "git", true},
		{"too early", `ana@example.com valid-after="202603011201" ` + anaKey, "x", "git", false},
		{"too late", `ana@example.com valid-before="20260301120000Z" ` + anaKey, "x", "git", false},
		{"nobody", "# ana@example.com " + anaKey, "x", "git", false},
	} {
		list, err := Parse([]string{"", c.line})
		if err != nil {
			t.Fatalf("%s: the error is %v", c.name, err)
		}
		who, err := list.Verify([]byte(c.payload), sign(t, ana, "x", c.namespace), now)
		if c.ok != (err == nil) || c.ok != (who == "ana@example.com") || err != nil && !errors.Is(err, ErrUntrusted) {
			t.Errorf("%s: the who is %q, the error is %v", c.name, who, err)
		}
	}
	list, err := Parse([]string{"ana@example.com " + anaKey})
	if err != nil {
		t.Fatal(err)
	}
	for _, armoured := range []string{
		"", "-----BEGIN PGP SIGNATURE-----\n",
		"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n",
	} {
		if _, err := list.Verify([]byte("x"), armoured, now); !errors.Is(err, ErrUntrusted) {
			t.Errorf("%q: the error is %v", armoured, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	_, key := newSigner(t)
	for _, line := range []string{
		"ana@example.com", key, "ana@example.com ssh-ed25519 AAAA", `ana@example.com cert-authority ` + key,
		`ana@example.com valid-after="soon" ` + key,
		`ana@example.com permitopen="x" ` + key, `"ana ` + key, "ana@example.com " + key + "\n" + key,
	} {
		_, err := Parse([]string{"# comment", line})
		if problem, ok := errors.AsType[*LineError](err); !ok || problem.Line != 1 || problem.Reason == "" {
			t.Errorf("%q: the error is %v", line, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("ana@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVJ", "-----BEGIN SSH SIGNATURE-----")
	f.Fuzz(func(t *testing.T, line, armoured string) {
		list, err := Parse([]string{line})
		if err != nil && !list.Empty() {
			t.Error("an error with signers")
		}
		if _, err := list.Verify(bytes.Repeat([]byte("x"), 10), armoured, time.Time{}); err == nil {
			t.Error("a signature that nobody made is accepted")
		}
	})
}
