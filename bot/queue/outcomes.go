package queue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Outcomes keep what the commands of comments did, for all replicas on the same streams and after a restart. They
// expire after Config.SeenTTL. A full stream forgets the oldest ones: the log in the comment of the merge request then
// still says that a command was executed.
type Outcomes struct{ q *Queue }

// NewOutcomes returns the outcomes in the streams of a queue.
func NewOutcomes(q *Queue) Outcomes { return Outcomes{q} }

// Outcome returns the value that Keep stored; "" if there is none.
func (o Outcomes) Outcome(ctx context.Context, p hint.Place, number int, comment int64) (string, error) {
	value, _, _, err := o.q.outcomes.get(ctx, outcomeKey(p, number, comment))
	return string(value), err
}

// Keep stores a value of at most 48 KiB.
func (o Outcomes) Keep(ctx context.Context, p hint.Place, number int, comment int64, value string) error {
	if _, err := o.q.outcomes.set(ctx, outcomeKey(p, number, comment), []byte(value)); err != nil {
		return fmt.Errorf("outcome of comment %d on %s!%d: %w", comment, p, number, err)
	}
	return nil
}

func outcomeKey(p hint.Place, number int, comment int64) string {
	return digest(p.String()) + "-" + strconv.Itoa(number) + "-" + strconv.FormatInt(comment, 10)
}
