package queue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Verdicts keep the verdicts of merge requests, for all replicas on the same streams. Reads go to the stream's leader,
// so they see every write that was acknowledged before. A full stream forgets the oldest verdicts; they also expire
// after 30 days.
type Verdicts struct{ q *Queue }

// NewVerdicts returns the verdicts in the streams of a queue.
func NewVerdicts(q *Queue) Verdicts { return Verdicts{q} }

// Verdict returns the value that Record stored last; "" if there is none.
func (v Verdicts) Verdict(ctx context.Context, p hint.Place, number int, name string) (string, error) {
	value, _, _, err := v.q.verdicts.get(ctx, verdictKey(p, number, name))
	return string(value), err
}

// Record stores a value. An empty one has the merge request count as unknown.
func (v Verdicts) Record(ctx context.Context, p hint.Place, number int, name, value string) error {
	_, err := v.q.verdicts.set(ctx, verdictKey(p, number, name), []byte(value))
	if err != nil {
		return fmt.Errorf("verdict of %s!%d: %w", p, number, err)
	}
	return nil
}

// verdictKey returns the key of a verdict. Names have letters only.
func verdictKey(p hint.Place, number int, name string) string {
	key := digest(p.String()) + "-" + strconv.Itoa(number)
	if name != "" {
		key += "-" + name
	}
	return key
}
