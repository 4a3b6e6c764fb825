package fleet

import (
	"slices"
	"time"
)

// defaultReceiptAge is Receipts.MaxAge if sluice.yaml does not say it.
const defaultReceiptAge = 72 * time.Hour

// Isolated describes an environment whose clusters no network reaches. Promotions move its environment branch here. A
// site, with a Git server and a Sluice of its own, moves the cluster branches.
type Isolated struct {
	// Receipts say what the site runs.
	Receipts Receipts `json:"receipts,omitzero"`
}

// Receipts are signed files in which a site says what its clusters run.
type Receipts struct {
	// MaxAge is how old the newest receipt may be. With an older one, what the clusters run is unknown, and environments
	// after this one wait. Default: 72h.
	MaxAge Duration `json:"maxAge,omitempty"`
}

// Age returns MaxAge, or its default.
func (r Receipts) Age() time.Duration {
	if d, err := r.MaxAge.Parse(); err == nil && d > 0 {
		return d
	}
	return defaultReceiptAge
}

func (ec environmentChecks) isolated(e Environment, at []string) {
	if e.Isolated == nil {
		return
	}
	at = append(slices.Clone(at), "isolated")
	if len(e.After) == 0 {
		ec.errorf(ec.file, at, "name in `after` the environments that it comes after",
			"environment %s is isolated and follows the trunk, so nothing would wait for its site", e.Name)
	}
	maxAge := append(slices.Clone(at), "receipts", "maxAge")
	ec.duration(e.Isolated.Receipts.MaxAge, e.Name, maxAge)
	if d, err := e.Isolated.Receipts.MaxAge.Parse(); e.Isolated.Receipts.MaxAge != "" && err == nil && d <= 0 {
		ec.errorf(ec.file, maxAge, "such as 72h", "environment %s: no receipt is younger than %s", e.Name, d)
	}
}
