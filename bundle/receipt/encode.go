package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// ErrInvalid means that bytes are not a receipt, or one that no site writes.
var ErrInvalid = errors.New("not a valid receipt")

var (
	hexDigits   = regexp.MustCompile(`^[0-9a-f]+$`)
	namePattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

const maxName = 253 // characters

func isCommit(s string) bool { return (len(s) == 40 || len(s) == 64) && hexDigits.MatchString(s) }

func isDigest(s string) bool { return len(s) == 64 && hexDigits.MatchString(s) }

// Encode returns the receipt as JSON: equal receipts are equal bytes. It refuses what Decode would refuse.
func (r Receipt) Encode() ([]byte, error) {
	data, err := r.encode()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return data, nil
}

func (r Receipt) encode() ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return nil, err
	}
	if out.Len() > MaxBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d", out.Len(), MaxBytes)
	}
	return out.Bytes(), nil
}

// Decode reads a receipt. It accepts only bytes that Encode returns: no unknown, repeated or differently written field.
// Every error is an ErrInvalid.
func Decode(data []byte) (Receipt, error) {
	r, err := decode(data)
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return r, nil
}

func decode(data []byte) (Receipt, error) {
	if len(data) > MaxBytes {
		return Receipt{}, fmt.Errorf("it has %d bytes, more than %d", len(data), MaxBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var r Receipt
	if err := dec.Decode(&r); err != nil {
		return Receipt{}, errors.New(safetext.Brief(err.Error(), MaxText))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Receipt{}, errors.New("something follows the receipt")
	}
	again, err := r.encode()
	if err != nil {
		return Receipt{}, err
	}
	if !bytes.Equal(again, data) {
		return Receipt{}, errors.New("it is not written as Sluice writes it")
	}
	return r, nil
}

func (r Receipt) validate() error {
	if r.APIVersion != Version || r.Kind != Kind {
		return fmt.Errorf("%q %q is not a %s of %s; a newer Sluice may have written it", safetext.Brief(r.APIVersion, MaxText),
			safetext.Brief(r.Kind, MaxText), Kind, Version)
	}
	v := validator{}
	v.name("fleet", r.Fleet)
	v.name("environment", r.Environment)
	v.name("site", r.Site)
	if r.Sequence < 1 {
		v.failf("sequence %d is not positive", r.Sequence)
	}
	v.time("made", r.Made, false)
	v.commit("incoming", r.Incoming, true)
	v.commit("trunk", r.Trunk, false)
	if b := r.Bundle; b != nil && (b.Sequence < 1 || !isDigest(b.Digest)) {
		v.failf("bundle: %d with digest %q is none", b.Sequence, safetext.Brief(b.Digest, MaxText))
	}
	v.branch("branch", r.Branch)
	v.commit("rollout.tree", r.Rollout.Tree, true)
	v.time("rollout.started", r.Rollout.Started, true)
	v.time("rollout.healthy", r.Rollout.Healthy, true)
	v.time("rollout.done", r.Rollout.Done, true)
	if h := r.Halt; h != nil {
		v.text("halt.by", h.By)
		v.text("halt.reason", h.Reason)
		v.time("halt.at", h.At, false)
	}
	v.clusters(r.Clusters)
	v.freezes(r.Freezes)
	return v.err
}

// validator keeps the first error.
type validator struct{ err error }

func (v *validator) failf(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf(format, args...)
	}
}

func (v *validator) name(field, s string) {
	if len(s) > maxName || !namePattern.MatchString(s) {
		v.failf("%s: %q is not a name", field, safetext.Brief(s, MaxText))
	}
}

func (v *validator) text(field, s string) {
	if len(s) > 4*MaxText || utf8.RuneCountInString(s) > MaxText || !safetext.Visible(s) {
		v.failf("%s: the text is longer than %d characters or has control characters", field, MaxText)
	}
}

func (v *validator) commit(field, s string, optional bool) {
	if s == "" && optional {
		return
	}
	if !isCommit(s) {
		v.failf("%s: %q is not the id of a Git object", field, safetext.Brief(s, MaxText))
	}
}

func (v *validator) time(field string, t time.Time, optional bool) {
	if t.IsZero() && optional {
		return
	}
	if t.Year() < 2000 || t.Year() > 9999 || t.Nanosecond() != 0 || t.Location() != time.UTC {
		v.failf("%s: %s is not a time in UTC with whole seconds after the year 2000", field, t.Format(time.RFC3339Nano))
	}
}

func (v *validator) branch(field string, b Branch) {
	v.commit(field+".commit", b.Commit, true)
	v.commit(field+".tree", b.Tree, b.Commit == "")
	v.commit(field+".source", b.Source, true)
	v.time(field+".since", b.Since, b.Commit == "")
	v.text(field+".foreign", b.Foreign)
	if b.Commit == "" && b.Tree+b.Source != "" {
		v.failf("%s: it describes a branch that does not exist", field)
	}
}

func (v *validator) clusters(list []Cluster) {
	if list == nil {
		v.failf("clusters is missing")
	}
	if len(list) > MaxClusters {
		v.failf("clusters: %d are more than %d", len(list), MaxClusters)
		return
	}
	if !slices.IsSortedFunc(list, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) }) {
		v.failf("clusters: they are not sorted by name")
	}
	for i, c := range list {
		field := fmt.Sprintf("clusters[%d]", i)
		v.name(field+".name", c.Name)
		if i > 0 && list[i-1].Name == c.Name {
			v.failf("%s: %s appears twice", field, c.Name)
		}
		v.branch(field+".branch", c.Branch)
		v.commit(field+".desired", c.Desired, true)
		v.text(field+".statusesUnknown", c.StatusesUnknown)
		if len(c.Statuses) > MaxStatuses {
			v.failf("%s.statuses: %d are more than %d", field, len(c.Statuses), MaxStatuses)
			return
		}
		for _, s := range c.Statuses {
			v.text(field+".statuses.name", s.Name)
			if !slices.Contains([]string{"success", "pending", "failure", "error"}, s.State) {
				v.failf("%s.statuses: %q is not the state of a status", field, safetext.Brief(s.State, MaxText))
			}
		}
		if v.err != nil {
			return
		}
	}
}

func (v *validator) freezes(list []Freeze) {
	if len(list) > MaxFreezes {
		v.failf("freezes: %d are more than %d", len(list), MaxFreezes)
		return
	}
	for i, f := range list {
		field := fmt.Sprintf("freezes[%d]", i)
		if f.Cluster != "" {
			v.name(field+".cluster", f.Cluster)
		}
		v.text(field+".by", f.By)
		v.text(field+".reason", f.Reason)
		v.time(field+".from", f.From, false)
		v.time(field+".until", f.Until, true)
	}
}

// Text returns what a receipt has of a text that people or forges wrote: visible characters, at most MaxText.
func Text(s string) string { return safetext.Shorten(safetext.Line(s), MaxText) }
