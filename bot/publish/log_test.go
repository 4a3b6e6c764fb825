package publish_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/report"
)

func TestLogIsBounded(t *testing.T) {
	f := newFake()
	for id := range int64(300) {
		if err := publish.Log(t.Context(), f, repo, 7, id+1, report.CommandEntry{
			Who:     "mia",
			Command: fmt.Sprintf("/sluice halt e%d", id), Outcome: "done",
		}); err != nil {
			t.Fatal(err)
		}
	}
	handled := publish.Handled(f.self, f.comments)
	if len(handled) != 200 || handled[199] != 300 || strings.Count(f.comments[0].Body, "/sluice halt") > 20 ||
		!strings.Contains(f.comments[0].Body, "e299") {
		t.Errorf("%d handled, %d rows", len(handled), strings.Count(f.comments[0].Body, "/sluice halt"))
	}
}
