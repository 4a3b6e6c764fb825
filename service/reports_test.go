package service

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/service/reviews"
)

// TestReportAddress: a report has an address if it is stored.
func TestReportAddress(t *testing.T) {
	t.Parallel()
	head := strings.Repeat("1", 40)
	for limit, want := range map[int64]string{
		10:      "",
		1 << 20: "https://sluice.example.com/hub/acme/fleet/-/merge-requests/7/" + head + ".html",
	} {
		store, err := reviews.Open(t.TempDir(), reviews.Limits{Bytes: limit}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		k := reportKeeper{store, "https://sluice.example.com", "hub"}
		got, err := k.Keep("hub:acme/fleet", "hub:acme/fleet", &forge.MergeRequest{Number: 7, State: forge.Open},
			&report.Review{Head: head, Verdict: report.VerdictPass, Changes: &diff.ChangeSet{}})
		if err != nil || got != want {
			t.Errorf("a limit of %d bytes: address %q, %v", limit, got, err)
		}
		k.forge = "lab"
		if got, err := k.Keep("hub:acme/fleet", "hub:acme/fleet", &forge.MergeRequest{Number: 8, State: forge.Open},
			&report.Review{Head: head, Verdict: report.VerdictPass, Changes: &diff.ChangeSet{}}); err != nil ||
			got != "" {
			t.Errorf("the address of a page that nobody of another forge may open: %q, %v", got, err)
		}
	}
}
