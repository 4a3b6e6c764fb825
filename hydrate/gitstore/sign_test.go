package gitstore

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

func TestSignedCommitsVerify(t *testing.T) {
	keys := t.TempDir()
	run := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(keys, "id"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Skipf("ssh-keygen is not on this machine: %v %s", err, out)
	}
	key, err := os.ReadFile(filepath.Join(keys, "id"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := NewSigner(key, "")
	if err != nil {
		t.Fatal(err)
	}
	bare := t.TempDir()
	runGit(t, bare, "init", "-q", "--bare")
	s := open(t, Options{Dir: bare})
	w := writer(t, s)
	tree, _ := w.Tree(nil)
	who := Signature{"S", "s@example.com", time.Unix(1700000000, 0).UTC()}
	h, err := w.Commit(CommitSpec{Tree: tree, Author: who, Committer: who, Message: "signed\n", Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	push(t, s.Local(), w, Move{"env/dev", Hash{}, h})
	public, _ := os.ReadFile(filepath.Join(keys, "id.pub"))
	write(t, keys, "allowed", "s@example.com "+string(public))
	runGit(t, bare, "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+filepath.Join(keys, "allowed"), "verify-commit", "env/dev")
	runGit(t, bare, "fsck", "--strict")
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
	}{{plain, "", true}, {locked, "pass", true}, {locked, "", false}, {locked, "wrong", false}, {[]byte("no key"), "", false}, {nil, "", false}} {
		signer, err := NewSigner(c.key, c.passphrase)
		if (err == nil) != c.ok {
			t.Fatalf("%q: %v", c.passphrase, err)
		}
		if !c.ok {
			continue
		}
		checkOpenPGP(t, signer, public.Bytes())
	}
}

func checkOpenPGP(t *testing.T, signer Signer, public []byte) {
	t.Helper()
	who := Signature{"S", "s@example.com", time.Unix(1700000000, 0).UTC()}
	spec := CommitSpec{Tree: Hash{1}, Author: who, Committer: who, Message: "m\n"}
	unsigned, err := encodeCommit(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Signer = signer
	data, err := encodeCommit(spec)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), "gpgsig ")
	signature, message, ok2 := strings.Cut(rest, "\n\nm\n")
	if !ok || !ok2 || message != "" || head+"\nm\n" != string(unsigned) {
		t.Fatalf("the commit is\n%s", data)
	}
	ring, err := openpgp.ReadKeyRing(bytes.NewReader(public))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openpgp.CheckArmoredDetachedSignature(ring, bytes.NewReader(unsigned), strings.NewReader(strings.ReplaceAll(signature, "\n ", "\n")), nil); err != nil {
		t.Error(err)
	}
}
