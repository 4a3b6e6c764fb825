package fleet

import (
	"strings"
	"testing"
	"time"
)

func TestIsolated(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]string{
		`after: [dev], isolated: {}`:                              "",
		`after: [dev], isolated: {receipts: {}}`:                  "",
		`after: [dev], isolated: {receipts: {maxAge: 36h}}`:       "",
		`after: [dev], isolated: {receipts: {maxAge: soon}}`:      "environment gov: ",
		`after: [dev], isolated: {receipts: {maxAge: 0s}}`:        "no receipt is younger than 0s",
		`after: [dev], isolated: {receipts: {maxAge: -1h}}`:       "environment gov: ",
		`after: [dev], isolated: {receipt: {maxAge: 1h}}`:         "receipt",
		`isolated: {receipts: {maxAge: 36h}}`:                     "environment gov is isolated and follows the trunk",
		`after: [dev], isolated: {receipts: {maxAge: 1h, of: x}}`: "of",
	} {
		problems := problemsOf(t, tiny(map[string]string{
			"sluice.yaml": base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [environment, region, cluster]\n  environments:\n    - {name: dev}\n    - {name: prod, after: [dev]}\n    - {name: gov, " + environment + "}\n",
		}))
		err := problems.Err()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: the error is %v", environment, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "sluice.yaml:")):
			t.Errorf("%s: the error is %v, want %s", environment, err, want)
		}
	}
}

func TestAgeOfReceipts(t *testing.T) {
	t.Parallel()
	for maxAge, want := range map[Duration]time.Duration{"": 72 * time.Hour, "36h": 36 * time.Hour} {
		if got := (Receipts{MaxAge: maxAge}).Age(); got != want {
			t.Errorf("maxAge %q is %s, want %s", maxAge, got, want)
		}
	}
}
