// Package signers reads Git's allowed-signers lines and verifies SSH signatures against them. It knows neither Git's
// objects nor any file: callers give it lines and bytes.
package signers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// Namespace is the namespace of signatures that Git writes.
const Namespace = "git"

// ErrUntrusted means that a signature is malformed, does not match the bytes, or that no line allows its key.
var ErrUntrusted = errors.New("not signed by an allowed signer")

// List is a set of keys that may sign. The zero value allows no key.
type List struct {
	namespace string // of the signatures
	signers   []signer
	id        string // hash of the lines; "" for an empty list
}

type signer struct {
	principal     string // the first name of the line
	key           ssh.PublicKey
	after, before time.Time // zero: no limit
}

// LineError is a line that Parse refuses.
type LineError struct {
	Line   int // index of the line, from 0
	Reason string
}

// Error returns the reason.
func (e *LineError) Error() string { return e.Reason }

// Parse is ParseFor for the signatures that Git writes.
func Parse(lines []string) (List, error) { return ParseFor(Namespace, lines) }

// ParseFor parses lines such as `ana@example.com namespaces="git" ssh-ed25519 AAAA…`. It skips empty lines and those
// that begin with #. Lines for other namespaces are valid, but allow no key here. It refuses certificate authorities.
// The error is a *LineError.
func ParseFor(namespace string, lines []string) (List, error) {
	out := List{namespace: namespace}
	id, count := sha256.New(), 0
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fmt.Fprintln(id, line)
		count++
		s, used, err := parseLine(namespace, line)
		if err != nil {
			return List{}, &LineError{Line: i, Reason: err.Error()}
		}
		if used {
			out.signers = append(out.signers, s)
		}
	}
	if count > 0 {
		out.id = hex.EncodeToString(id.Sum(nil))
	}
	return out, nil
}

func parseLine(namespace, line string) (s signer, used bool, err error) {
	principals, rest, ok := cutField(line)
	if !ok {
		return s, false, errors.New("the line has no key: write `name@example.com ssh-ed25519 AAAA…`")
	}
	key, _, options, more, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil || len(bytes.TrimSpace(more)) > 0 {
		return s, false, errors.New("the line has no SSH public key after the name: write `name@example.com ssh-ed25519 AAAA…`, on one line")
	}
	s.principal, _, _ = strings.Cut(principals, ",")
	s.key, used = key, true
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			used = slices.Contains(strings.Split(value, ","), namespace)
		case "valid-after":
			s.after, err = parseTime(value)
		case "valid-before":
			s.before, err = parseTime(value)
		case "cert-authority":
			err = errors.New("cert-authority is not supported: list the keys themselves")
		default:
			err = fmt.Errorf("option %q is not known: namespaces, valid-after and valid-before are", name)
		}
		if err != nil {
			return s, false, err
		}
	}
	return s, used, nil
}

// cutField cuts the first field, which may be quoted.
func cutField(line string) (field, rest string, ok bool) {
	if quoted, found := strings.CutPrefix(line, `"`); found {
		field, rest, ok = strings.Cut(quoted, `"`)
	} else if i := strings.IndexAny(line, " \t"); i > 0 {
		field, rest, ok = line[:i], line[i:], true
	}
	rest = strings.TrimSpace(rest)
	return field, rest, ok && field != "" && rest != ""
}

// parseTime parses the formats of ssh-keygen(1). It reads times without Z as UTC, so that all machines agree.
func parseTime(text string) (time.Time, error) {
	digits := strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.Parse(layout, digits); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 20260131 or 202601311530Z", text)
}

// Empty reports whether the list has no line, so that no signature is required. A list whose lines are all for other
// namespaces is not empty, and allows no key.
func (l List) Empty() bool { return l.id == "" }

// ID identifies the list: lists with equal ids allow the same keys. It is "" for an empty list.
func (l List) ID() string { return l.id }

// Names returns the first name of each line, in order and once.
func (l List) Names() []string {
	var out []string
	for _, s := range l.signers {
		if !slices.Contains(out, s.principal) {
			out = append(out, s.principal)
		}
	}
	return out
}

// Verify checks an armoured SSH signature of payload and returns the first name of the line that allows its key. The
// key must be valid at the time at, which is the committer date of a commit. Every error is an ErrUntrusted.
func (l List) Verify(payload []byte, armoured string, at time.Time) (string, error) {
	signature, err := sshsig.Unarmor([]byte(armoured))
	if err != nil {
		return "", fmt.Errorf("%w: the signature is not an SSH signature", ErrUntrusted)
	}
	fingerprint := ssh.FingerprintSHA256(signature.PublicKey)
	reason := "no line of the list of signers has the key"
	for _, s := range l.signers {
		if !bytes.Equal(s.key.Marshal(), signature.PublicKey.Marshal()) {
			continue
		}
		if !s.after.IsZero() && at.Before(s.after) || !s.before.IsZero() && !at.Before(s.before) {
			reason = "the key is not valid at " + at.UTC().Format(time.DateTime) + " UTC"
			continue
		}
		if err := sshsig.Verify(bytes.NewReader(payload), signature, s.key, signature.HashAlgorithm,
			l.namespace); err != nil {
			return "", fmt.Errorf("%w: the signature by %s does not fit the content", ErrUntrusted, fingerprint)
		}
		return s.principal, nil
	}
	return "", fmt.Errorf("%w: %s: %s", ErrUntrusted, fingerprint, reason)
}
