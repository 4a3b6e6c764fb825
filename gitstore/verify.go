package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/signers"
)

// ErrUnverified matches every *SignatureError.
var ErrUnverified = errors.New("signature not verified")

// SignatureError means that a commit has no signature that the list of signers allows.
type SignatureError struct {
	Commit Hash
	Reason string
}

// Error returns the commit and the reason.
func (e *SignatureError) Error() string { return fmt.Sprintf("commit %s: %s", e.Commit, e.Reason) }

// Is matches ErrUnverified.
func (e *SignatureError) Is(target error) bool { return target == ErrUnverified }

// VerifySignature checks a commit's SSH signature against the list and returns the name of the signer. The key must
// be valid at the committer date, as for `git verify-commit`. Results are cached, since a commit does not change. The
// error is a *SignatureError if the commit is unsigned, signed with OpenPGP, or signed by somebody whom the list does
// not allow. Any other error means that the commit cannot be read.
func (s *Store) VerifySignature(ctx context.Context, commit Hash, allowed signers.List) (string, error) {
	key := string(commit[:]) + allowed.ID()
	if known, ok := s.signatures.Get(key); ok {
		return known.signer, known.err()
	}
	out, err := s.verifySignature(ctx, commit, allowed)
	if err != nil {
		return "", err
	}
	s.signatures.Add(key, &out)
	return out.signer, out.err()
}

// verdict is the result of the check of one signature.
type verdict struct {
	signer  string
	refused *SignatureError // nil if the signer is allowed
}

func (v verdict) err() error {
	if v.refused == nil {
		return nil // not a typed nil
	}
	return v.refused
}

const knownSignatures = 20_000 // cached results of a store, about 200 bytes each

func (s *Store) verifySignature(ctx context.Context, commit Hash, allowed signers.List) (verdict, error) {
	data, err := s.typed(ctx, commit, "commit")
	if err != nil {
		return verdict{}, err
	}
	c, err := parseCommit(commit, data)
	if err != nil {
		return verdict{}, err
	}
	who, bad := signerOf(data, allowed, c.Committer.When)
	if bad != nil { // the result of the check, not a failure to check
		return verdict{refused: &SignatureError{commit, bad.Error()}}, nil //nolint:nilerr // a result, which is cached
	}
	return verdict{signer: who}, nil
}

// signerOf returns the allowed signer of a commit at a time. An error means that no allowed key signed it.
func signerOf(data []byte, allowed signers.List, at time.Time) (string, error) {
	payload, signature, err := cutSignature(data)
	if err != nil {
		return "", err
	}
	return allowed.Verify(payload, signature, at)
}

// SignedBy reports whether the key of a signer signed a commit.
func SignedBy(ctx context.Context, s *Store, commit Hash, by Signer) (bool, error) {
	data, err := s.typed(ctx, commit, "commit")
	if err != nil {
		return false, err
	}
	payload, signature, err := cutSignature(data)
	return err == nil && by.Verify(payload, signature) == nil, nil
}

// cutSignature splits a commit into the signed bytes and the signature, which Git stores in the header gpgsig.
func cutSignature(data []byte) (payload []byte, signature string, err error) {
	head, message, _ := bytes.Cut(data, []byte("\n\n"))
	var headers [][]byte
	var folded []string
	inside := false
	for line := range bytes.SplitSeq(head, []byte{'\n'}) {
		first, starts := bytes.CutPrefix(line, []byte("gpgsig "))
		switch {
		case starts && folded != nil:
			return nil, "", errors.New("it has two signatures")
		case starts:
			inside, folded = true, []string{string(first)}
		case inside && bytes.HasPrefix(line, []byte{' '}):
			folded = append(folded, string(line[1:]))
		default:
			inside, headers = false, append(headers, line)
		}
	}
	if folded == nil {
		return nil, "", errors.New("it is not signed")
	}
	payload = append(bytes.Join(headers, []byte{'\n'}), "\n\n"...)
	return append(payload, message...), strings.Join(folded, "\n") + "\n", nil
}
