package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bundle/envelope"
)

// Names of the parts.
const (
	partContents = "bundle.json"
	partRecord   = "record.yaml" // of the environment, from sluice/state
	partImages   = "images.txt"
	partSBOM     = "sbom.cdx.json"
	partObjects  = "objects.pack"
)

// Limits of what a bundle says and brings.
const (
	maxContents = 16 << 20
	maxText     = 32 << 20 // other parts that are read whole
	maxObjects  = 20_000_000
	maxInflated = 64 << 30
)

// Roles of refs.
const (
	roleEnvironment = "environment"
	roleTrunk       = "trunk"
)

// Ref is a branch that a bundle brings.
type Ref struct {
	Role   string `json:"role"` // environment or trunk
	Branch string `json:"branch"`
	From   string `json:"from,omitempty"` // commit that the site must have; "" for none
	To     string `json:"to"`
}

// Base is the bundle that another one builds on: the site must have imported it.
type Base struct {
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"`
}

// Promotion is one commit of home's environment branch.
type Promotion struct {
	Commit     string    `json:"commit"`
	Subject    string    `json:"subject"`
	Source     string    `json:"source"`
	At         time.Time `json:"at"`
	By         string    `json:"by,omitempty"`
	ApprovedBy []string  `json:"approvedBy,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Rollback   string    `json:"rollback,omitempty"`   // the reason of a rollback
	Exceptions []string  `json:"exceptions,omitempty"` // from the policy
}

// Contents says what a bundle brings and why.
type Contents struct {
	Refs   []Ref  `json:"refs"`
	Base   *Base  `json:"base,omitempty"` // nil: the bundle is full
	Source string `json:"source"`         // source commit that the environment has then
	// Rollback is the reason why the environment goes back; "" if it does not.
	Rollback string `json:"rollback,omitempty"`
	// Promotions are the commits that the bundle brings, newest first, at most 100.
	Promotions []Promotion `json:"promotions,omitempty"`
	// Clusters and Manifests count what the environment has then, and Objects what the packfile has.
	Clusters  int    `json:"clusters"`
	Manifests int    `json:"manifests"`
	Objects   int    `json:"objects"`
	Records   string `json:"records,omitempty"` // commit of sluice/state that the record is of
	// Charts and Commits are what rendering needs that is not in the trunk, as far as the site lacks it.
	Charts  []Chart  `json:"charts,omitempty"`
	Commits []Commit `json:"commits,omitempty"`
	// Policy is what home's policy said of what the bundle changes; nil if it was not asked. Home's signers vouch for it,
	// and no gate of a site counts it.
	Policy *Policy `json:"policy,omitempty"`
}

// Verdicts of a Policy.
const (
	Passed  = "pass"
	Failed  = "fail"
	Unknown = "unknown"
)

// Policy is what home's policy said.
type Policy struct {
	Verdict string `json:"verdict"`          // pass, fail or unknown
	Reason  string `json:"reason,omitempty"` // why it is not pass
}

// String says it for people.
func (p *Policy) String() string {
	switch {
	case p == nil:
		return "it was not asked"
	case p.Reason != "":
		return p.Verdict + ": " + p.Reason
	}
	return p.Verdict
}

// Full reports whether the bundle needs nothing that came before it.
func (c *Contents) Full() bool { return c.Base == nil }

func (c *Contents) ref(role string) (Ref, bool) {
	for _, r := range c.Refs {
		if r.Role == role {
			return r, true
		}
	}
	return Ref{}, false
}

// Trunk reports whether the bundle brings the trunk.
func (c *Contents) Trunk() bool {
	_, ok := c.ref(roleTrunk)
	return ok
}

// ReadContents reads what a bundle says. It refuses an envelope of another kind.
func ReadContents(e *envelope.Envelope) (*Contents, error) {
	if e.Kind != envelope.Bundle {
		return nil, fmt.Errorf("it is a %s, not a bundle: use `sluice receipt`", e.Kind)
	}
	data, err := e.Read(partContents, maxContents)
	if err != nil {
		return nil, err
	}
	var c Contents
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", partContents, err)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return &c, c.checkParts(e)
}

// ReadImages reads the list of images of a bundle; nil if it has none.
func ReadImages(e *envelope.Envelope) ([]string, error) {
	if !e.Has(partImages) {
		return nil, nil
	}
	data, err := e.Read(partImages, maxText)
	return strings.Fields(string(data)), err
}

func (c *Contents) check() error {
	seen := map[string]bool{}
	for _, r := range c.Refs {
		if r.Role != roleEnvironment && r.Role != roleTrunk || seen[r.Role] {
			return fmt.Errorf("%s lists a ref %.40q twice, or one that no bundle has", partContents, r.Role)
		}
		seen[r.Role] = true
		if !isHash(r.To) || r.From != "" && !isHash(r.From) {
			return fmt.Errorf("%s: the ref %s does not name a commit", partContents, r.Role)
		}
		if c.Full() && r.From != "" {
			return fmt.Errorf("%s: a full bundle builds on commit %.10s", partContents, r.From)
		}
	}
	if !seen[roleEnvironment] {
		return fmt.Errorf("%s lists no environment branch", partContents)
	}
	if c.Policy != nil && !slices.Contains([]string{Passed, Failed, Unknown}, c.Policy.Verdict) {
		return fmt.Errorf("%s: the policy says %.40q: want %s, %s or %s", partContents, c.Policy.Verdict, Passed, Failed, Unknown)
	}
	return c.checkOutside()
}
