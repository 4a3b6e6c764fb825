// Package receipt is the content of receipts: what runs in an isolated environment, since when and how healthy, as its
// site says. It is pure: it reads no repository, no clock and no file, and it decides nothing.
//
// A receipt crosses from a site to the home of the fleet as a part of a signed envelope. Decode therefore treats its
// bytes as hostile: it bounds them, and accepts only the one encoding that Encode writes.
//
// The package is not API: it can change in every release.
package receipt

import (
	"time"
)

// The version and kind of a receipt.
const (
	Version = "sluice.dev/v1alpha1"
	Kind    = "Receipt"
)

// File is the name of the receipt among the parts of its envelope.
const File = "receipt.json"

// Bounds of a receipt. Encode and Decode refuse more.
const (
	MaxBytes    = 32 << 20
	MaxClusters = 20_000
	MaxStatuses = 200 // of one cluster
	MaxFreezes  = 1_000
	MaxText     = 500 // characters of a reason, a name of a status or of a person
)

// Receipt says what a site runs. Times are those of the site's clock, in whole seconds, in UTC.
type Receipt struct {
	APIVersion  string `json:"apiVersion"`
	Kind        string `json:"kind"`
	Fleet       string `json:"fleet"`
	Environment string `json:"environment"`
	// Site names where it was made, such as gov-east.
	Site string `json:"site"`
	// Sequence counts the receipts of the site, from 1.
	Sequence int64     `json:"sequence"`
	Made     time.Time `json:"made"`
	// Incoming is the commit of the home's environment branch that the site imported last; "" if it imported none.
	Incoming string `json:"incoming,omitempty"`
	// Trunk is the commit of the site's trunk, whose rules it follows.
	Trunk string `json:"trunk"`
	// Bundle is the last imported bundle; nil if there was none.
	Bundle  *Bundle `json:"bundle,omitempty"`
	Branch  Branch  `json:"branch"`
	Rollout Rollout `json:"rollout,omitzero"`
	// Clusters are those of the environment in the site's fleet, by name. Retired ones are left out.
	Clusters []Cluster `json:"clusters"`
	// Halt stops the environment on the site; nil if nothing does.
	Halt *Halt `json:"halt,omitempty"`
	// Freezes are those that people gave on the site, and that have not ended.
	Freezes []Freeze `json:"freezes,omitempty"`
}

// Bundle identifies a bundle.
type Bundle struct {
	Sequence int64  `json:"sequence"`
	Digest   string `json:"digest"` // SHA-256 of its manifest, in hexadecimal digits
}

// Branch is what a branch of the site has.
type Branch struct {
	Commit string    `json:"commit,omitempty"` // its tip; "" if the branch does not exist
	Tree   string    `json:"tree,omitempty"`
	Source string    `json:"source,omitempty"` // the source commit that the tree was rendered from
	Since  time.Time `json:"since,omitzero"`   // of the tip
	// Foreign is the reason why the site's Sluice did not make the tip; "" if it did.
	Foreign string `json:"foreign,omitempty"`
}

// Rollout is how far the site's rollout of the environment branch is.
type Rollout struct {
	Tree    string    `json:"tree,omitempty"` // of the environment branch
	Started time.Time `json:"started,omitzero"`
	// Healthy is when the last wave was first seen healthy, and Done is when everything was complete, with every bake;
	// zero if that has not happened.
	Healthy time.Time `json:"healthy,omitzero"`
	Done    time.Time `json:"done,omitzero"`
}

// Cluster is what one cluster runs.
type Cluster struct {
	Name string `json:"name"`
	// Branch is what its branch has.
	Branch Branch `json:"branch"`
	// Desired is the tree that the site's environment branch has for the cluster; "" if it has none.
	Desired string `json:"desired,omitempty"`
	// Frozen means that the site's fleet says so.
	Frozen bool `json:"frozen,omitempty"`
	// Statuses are those on the tip of its branch, by name.
	Statuses []Status `json:"statuses,omitempty"`
	// StatusesUnknown is why the statuses could not be read; "" if they were.
	StatusesUnknown string `json:"statusesUnknown,omitempty"`
}

// Status is one commit status, in the words of forges: success, pending, failure, error.
type Status struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Halt is a halt.
type Halt struct {
	By     string    `json:"by,omitempty"` // "" if the site's Sluice halted it because of its health
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Freeze is a time without moves on the site.
type Freeze struct {
	Cluster string    `json:"cluster,omitempty"` // "" is the whole environment
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until,omitzero"` // zero: until somebody ends it
}
