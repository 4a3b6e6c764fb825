package github

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

const maxDeliveryPages = 1000

func (f *Forge) noDeliveries() error {
	if f.app != nil {
		return nil
	}
	return fmt.Errorf("%w: only a GitHub App can read its deliveries", forge.ErrUnsupported)
}

// FailedDeliveries implements forge.Deliveries: webhooks of the App without a successful attempt, oldest first.
func (f *Forge) FailedDeliveries(ctx context.Context, since time.Time) ([]forge.Delivery, error) {
	const what = "list the deliveries of webhooks"
	if err := f.noDeliveries(); err != nil {
		return nil, wrap(what, err)
	}
	ctx = rest.With(ctx, f.app.jwt)
	arrived := map[string]bool{}
	var failed []forge.Delivery
	o := &github.ListCursorOptions{PerPage: perPage}
	for range maxDeliveryPages {
		some, resp, err := f.client.Apps.ListHookDeliveries(ctx, o)
		if err != nil {
			return nil, wrap(what, err)
		}
		old := false
		for _, d := range some { // newest first
			if old = d.GetDeliveredAt().Before(since); old {
				break
			}
			guid := d.GetGUID()
			if code := d.GetStatusCode(); code >= 200 && code < 300 {
				arrived[guid] = true
				continue
			}
			if !slices.ContainsFunc(failed, func(x forge.Delivery) bool { return x.GUID == guid }) {
				failed = append(failed, forge.Delivery{ID: d.GetID(), GUID: guid, Sent: d.GetDeliveredAt().Time})
			}
		}
		if old || resp.Cursor == "" {
			failed = slices.DeleteFunc(failed, func(d forge.Delivery) bool { return arrived[d.GUID] })
			slices.Reverse(failed)
			return failed, nil
		}
		o.Cursor = resp.Cursor
	}
	return nil, wrap(what, fmt.Errorf("%w: the list has more than %d pages", forge.ErrUnavailable, maxDeliveryPages))
}

// Redeliver implements forge.Deliveries.
func (f *Forge) Redeliver(ctx context.Context, id int64) error {
	what := fmt.Sprintf("deliver webhook %d again", id)
	if err := f.noDeliveries(); err != nil {
		return wrap(what, err)
	}
	_, _, err := f.client.Apps.RedeliverHookDelivery(rest.Repeatable(rest.With(ctx, f.app.jwt)), id)
	if _, ok := errors.AsType[*github.AcceptedError](err); ok {
		return nil
	}
	return wrap(what, err)
}
