package report_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/report"
)

// Messages that differ only in names are one message, which has the places of all of them.
func TestAlikeMessagesKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	var errors, places []string
	for n := range 5 {
		place := fmt.Sprintf("apps/web-%d/app.yaml:%d:1", n, n+3)
		places = append(places, place)
		errors = append(errors, fmt.Sprintf("%s: the fleet has no cluster %q", place, fmt.Sprintf("eu-%d", n)))
	}
	groups := report.Alike(report.GroupMessages(errors))
	if len(groups) != 1 {
		t.Fatalf("5 messages that differ in a name are %d, want 1", len(groups))
	}
	if got := groups[0].Files; !slices.Equal(got, places) {
		t.Errorf("the message has the places %q, want %q", got, places)
	}
	want := `apps/web-0/app.yaml:3:1: the fleet has no cluster "eu-0" (also apps/web-1/app.yaml:4:1, apps/web-2/app.yaml:5:1 and 2 more) (and 4 other messages that differ only in names)`
	if got := groups[0].Line(2); got != want {
		t.Errorf("its line is\n%s\nwant\n%s", got, want)
	}
}
