package envelope

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sluice-gitops/sluice/gitstore"
)

var created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func parts() []Content {
	return []Content{Text("bundle.json", []byte(`{"a":1}`)), Text("objects.pack", bytes.Repeat([]byte("pack"), 400)), Text("empty", nil)}
}

func sealed(tb testing.TB, change func(*Manifest)) []byte {
	tb.Helper()
	m := Manifest{Kind: Bundle, Fleet: "acme", Environment: "gov", Sequence: 1, Created: created}
	if change != nil {
		change(&m)
	}
	out, err := Seal(m, parts())
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// sshKey returns a key that signs, and its line in a list of signers.
func sshKey(tb testing.TB, who string) (Signer, string, ed25519.PrivateKey) {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		tb.Fatal(err)
	}
	key, err := gitstore.NewSigner(pem.EncodeToMemory(block), "")
	if err != nil {
		tb.Fatal(err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		tb.Fatal(err)
	}
	return SSH(key.(SSHKey)), who + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))), private
}

// cosignKey returns a key as of cosign, and its public half in PEM form.
func cosignKey(tb testing.TB) (Signer, string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return signerOf(tb, key), publicPEM(tb, key.Public())
}

func signerOf(tb testing.TB, key crypto.PrivateKey) Signer {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := Cosign(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func publicPEM(tb testing.TB, key crypto.PublicKey) string {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func written(tb testing.TB, manifest []byte, by ...Signer) []byte {
	tb.Helper()
	var out bytes.Buffer
	if err := Write(&out, manifest, parts(), by...); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func opened(tb testing.TB, file []byte) *Envelope {
	tb.Helper()
	e, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func trust(tb testing.TB, text string) *Trust {
	tb.Helper()
	out, err := ParseTrust([]byte("fleet: acme\nenvironments: [gov]\n" + text))
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestEqualContentIsAnEqualFile(t *testing.T) {
	t.Parallel()
	key, _, _ := sshKey(t, "ana")
	first, second := written(t, sealed(t, nil), key), written(t, sealed(t, nil), key)
	if !bytes.Equal(first, second) {
		t.Error("two files of the same content differ")
	}
	e := opened(t, first)
	for _, p := range parts() {
		got, err := e.Read(p.Name, 1<<20)
		want, _ := io.ReadAll(section(p.Data))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("part %s is %q, %v", p.Name, got, err)
		}
	}
	if _, err := e.Read("objects.pack", 100); !errors.Is(err, ErrInvalid) {
		t.Errorf("a part above its limit: %v", err)
	}
	if e.Digest != Digest(sealed(t, nil)) || e.Fleet != "acme" || e.Sequence != 1 {
		t.Errorf("the manifest is %+v", e.Manifest)
	}
}

// TestTarReadsIt: the tar of the system unpacks an envelope.
func TestTarReadsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _, _ := sshKey(t, "ana")
	cmd := exec.CommandContext(t.Context(), "tar", "-xf", "-", "-C", dir)
	cmd.Stdin = bytes.NewReader(written(t, sealed(t, nil), key))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v %s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil || !bytes.Equal(got, sealed(t, nil)) {
		t.Errorf("tar unpacks %q, %v", got, err)
	}
}

// TestSSHKeygen verifies with OpenSSH what we sign, and signs with OpenSSH what we verify.
func TestSSHKeygen(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	save := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(in(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, line, private := sshKey(t, "ana@example.com")
	manifest := sealed(t, nil)
	e := opened(t, written(t, manifest, key))
	save("signers", []byte(line+"\n"))
	save("manifest.json.sig", e.Signatures[0])
	verify := exec.CommandContext(t.Context(), "ssh-keygen", "-Y", "verify", "-f", in("signers"), "-I", "ana@example.com",
		"-n", "sluice-bundle", "-s", in("manifest.json.sig"))
	verify.Stdin = bytes.NewReader(manifest)
	if out, err := verify.CombinedOutput(); err != nil || !strings.Contains(string(out), "Good") {
		t.Fatalf("ssh-keygen refuses our signature: %v %s", err, out)
	}

	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	save("key", pem.EncodeToMemory(block))
	sign := exec.CommandContext(t.Context(), "ssh-keygen", "-Y", "sign", "-f", in("key"), "-n", "sluice-bundle")
	sign.Stdin = bytes.NewReader(manifest)
	made, err := sign.Output()
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := write(&file, manifest, parts(), [][]byte{made}); err != nil {
		t.Fatal(err)
	}
	got, err := trust(t, "signers: ['"+line+"']").Verify(opened(t, file.Bytes()), created)
	if err != nil || strings.Join(got.Names, ",") != "ana@example.com" {
		t.Fatalf("a signature of ssh-keygen: %+v, %v", got, err)
	}
}

// TestOpenSSL verifies a signature by a key of cosign without our code or cosign's.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir := t.TempDir()
	key, public := cosignKey(t)
	manifest := sealed(t, nil)
	raw, err := base64.StdEncoding.DecodeString(string(opened(t, written(t, manifest, key)).Signatures[0]))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"sig": raw, "pub.pem": []byte(public)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "openssl", "dgst", "-sha256", "-verify", filepath.Join(dir, "pub.pem"),
		"-signature", filepath.Join(dir, "sig"))
	cmd.Stdin = bytes.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("openssl refuses the signature: %v %s", err, out)
	}
}

func TestTrust(t *testing.T) {
	t.Parallel()
	ana, anaLine, anaPrivate := sshKey(t, "ana@example.com")
	again, againLine, _ := sshKey(t, "ana@example.com") // her next key
	bob, bobLine, _ := sshKey(t, "bob@example.com")
	stranger, _, _ := sshKey(t, "eve@example.com")
	release, releasePEM := cosignKey(t)
	otherCosign, _ := cosignKey(t)
	both := "threshold: 2\nsigners:\n- '" + anaLine + "'\n- '" + againLine + "'\n- '" + bobLine + "'\nkeys:\n- name: release\n  pem: |\n    " +
		strings.ReplaceAll(releasePEM, "\n", "\n    ") + "\n"
	manifest := sealed(t, nil)
	for _, c := range []struct {
		name, trust string
		file        []byte
		names, err  string
	}{
		{"one of one", "signers: ['" + anaLine + "']", written(t, manifest, ana), "ana@example.com", ""},
		{"two of three", both, written(t, manifest, ana, bob), "ana@example.com,bob@example.com", ""},
		{"SSH and cosign", both, written(t, manifest, release, bob), "release,bob@example.com", ""},
		{"strangers do not harm", both, written(t, manifest, stranger, ana, otherCosign, bob), "ana@example.com,bob@example.com", ""},
		{"too few", both, written(t, manifest, ana), "ana@example.com", "1 of 2 required signers"},
		{"one key twice", both, written(t, manifest, ana, ana), "ana@example.com", "1 of 2 required signers"},
		{"two keys of one name", both, written(t, manifest, ana, again), "ana@example.com", "1 of 2 required signers"},
		{"nobody known", both, written(t, manifest, stranger, otherCosign), "", "0 of 2 required signers"},
		{"a signature of another manifest", "signers: ['" + anaLine + "']", swapped(t, manifest, ana), "", "does not fit the content"},
		{"a cosign signature of another manifest", both, swapped(t, manifest, release), "", "none of the listed keys"},
		{"neither form", both, withSignature(t, manifest, "not a signature"), "", "neither an SSH signature nor one of cosign"},
		{"no signature", both, withSignature(t, manifest), "", "0 of 2"},
		{"a namespace of its own", "signers: ['" + anaLine + "']", withSignature(t, manifest, gitSigned(t, anaPrivate, manifest)), "", "does not fit"},
		{"a key for Git only", `signers: ['` + strings.Replace(anaLine, " ", ` namespaces="git" `, 1) + `']` + "\nkeys:\n- name: release\n  pem: |\n    " +
			strings.ReplaceAll(releasePEM, "\n", "\n    "), written(t, manifest, ana), "", "no line of the list"},
		{"a key that has ended", "signers: ['" + strings.Replace(anaLine, " ", ` valid-before="20260301" `, 1) + "']", written(t, manifest, ana), "", "not valid at"},
		{"another fleet", "signers: ['" + anaLine + "']", written(t, sealed(t, func(m *Manifest) { m.Fleet = "other" }), ana), "ana@example.com", "for the fleet other"},
		{"another environment", "signers: ['" + anaLine + "']", written(t, sealed(t, func(m *Manifest) { m.Environment = "air" }), ana), "ana@example.com", "for the environment air"},
	} {
		got, err := trust(t, c.trust).Verify(opened(t, c.file), created)
		if strings.Join(got.Names, ",") != c.names {
			t.Errorf("%s: the names are %q", c.name, got.Names)
		}
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.err != "" && (!errors.Is(err, ErrUntrusted) || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: the error is %v; want %q", c.name, err, c.err)
		}
	}
}

// swapped returns a file whose signature is of another manifest.
func swapped(t *testing.T, manifest []byte, by Signer) []byte {
	t.Helper()
	text, err := by.Sign(sealed(t, func(m *Manifest) { m.Sequence, m.Previous = 2, strings.Repeat("a", 64) }))
	if err != nil {
		t.Fatal(err)
	}
	return withSignature(t, manifest, text)
}

func withSignature(t *testing.T, manifest []byte, signatures ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	var list [][]byte
	for _, s := range signatures {
		list = append(list, []byte(s))
	}
	if err := write(&out, manifest, parts(), list); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// gitSigned signs as if the manifest were a commit.
func gitSigned(t *testing.T, private ed25519.PrivateKey, manifest []byte) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := gitstore.NewSigner(pem.EncodeToMemory(block), "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := key.Sign(manifest)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseTrust(t *testing.T) {
	t.Parallel()
	_, line, _ := sshKey(t, "ana")
	for text, want := range map[string]string{
		"signers: ['" + line + "']":                                                         "fleet: write",
		"fleet: acme\nsigners: ['" + line + "']":                                            "environments: list",
		"fleet: acme\nenvironments: [gov]":                                                  "threshold: 1 of 0",
		"fleet: acme\nenvironments: [gov]\nthreshold: 2\nsigners: ['" + line + "']":         "threshold: 2 of 1",
		"fleet: acme\nenvironments: [gov]\nthreshold: -1\nsigners: ['" + line + "']":        "threshold: -1",
		"fleet: acme\nenvironments: [gov]\nsigners: [nonsense]":                             "signers[0]",
		"fleet: acme\nenvironments: [gov]\nsigner: ['" + line + "']":                        "field signer not found",
		"fleet: acme\nenvironments: [gov]\nkeys: [{name: a, pem: b}]":                       "keys[0].pem",
		"fleet: acme\nenvironments: [gov]\nsigners: ['ana cert-authority ssh-ed25519 AAA']": "signers[0]",
		"": "not a list of signers",
	} {
		if _, err := ParseTrust([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v; want %q", text, err, want)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Manifest){
		"kind":                 func(m *Manifest) { m.Kind = "Parcel" },
		"name of a fleet":      func(m *Manifest) { m.Fleet = "../acme" },
		"of an environment":    func(m *Manifest) { m.Environment = "gov/../prod" },
		"numbers start at 1":   func(m *Manifest) { m.Sequence = 0 },
		"names none before it": func(m *Manifest) { m.Sequence = 2 },
		"not a SHA-256":        func(m *Manifest) { m.Previous = "abc" },
	} {
		m := Manifest{Kind: Bundle, Fleet: "acme", Environment: "gov", Sequence: 1, Created: created}
		change(&m)
		if _, err := Seal(m, parts()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want %q", err, want)
		}
	}
	if _, err := Seal(Manifest{Kind: Bundle, Fleet: "acme", Environment: "gov", Sequence: 1}, nil); err == nil {
		t.Error("an envelope without parts")
	}
}
