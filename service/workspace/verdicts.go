package workspace

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// Verdicts caches the policy's verdict on a source commit in an environment, and the authors of a commit, because the
// promotion loop reads both in each pass. It is safe for concurrent use.
type Verdicts struct {
	cache *lru.Cache[string, *verdict]
}

// verdict is one cached answer.
type verdict struct {
	at      time.Time
	authors []string // logins
	state   promote.State
	reason  string
}

const (
	maxVerdicts = 2000
	verdictLife = 10 * time.Minute // policy exemptions expire
)

// NewVerdicts returns an empty cache.
func NewVerdicts() *Verdicts {
	cache, err := lru.New[string, *verdict](maxVerdicts)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Verdicts{cache}
}
