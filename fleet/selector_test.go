package fleet

import (
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Compares selectors with Kubernetes' own: which are valid, and what they select.
func TestSelectorsEqualKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	accepted, selected := 0, 0
	for range 20_000 {
		own, upstream := randomSelector(r, func(list []string) string {
			if r.IntN(4) > 0 {
				return list[r.IntN(3)]
			}
			return list[r.IntN(len(list))]
		})
		compiled, err := compileSelector(&own)
		reference, refErr := metav1.LabelSelectorAsSelector(&upstream)
		if (err == nil) != (refErr == nil) {
			t.Fatalf("%+v: %v, Kubernetes says %v", own, err, refErr)
		}
		if err != nil {
			continue
		}
		accepted++
		have := map[string]string{}
		for range r.IntN(4) {
			have[labelKeys()[r.IntN(3)]] = labelTexts()[r.IntN(3)]
		}
		got, want := compiled.matches(have), reference.Matches(labels.Set(have))
		if got != want {
			t.Fatalf("%+v on %v: %v, Kubernetes says %v", own, have, got, want)
		}
		if got {
			selected++
		}
	}
	if accepted < 1000 || selected < 1000 || selected == accepted {
		t.Errorf("%d accepted and %d selected compare too little", accepted, selected)
	}
}

func labelKeys() []string {
	return []string{
		"region", "example.com/zone", "a_b.c", "", "a b", "-x", "x/y/z", "UPPER.example/z",
		strings.Repeat("k", 64),
	}
}

func labelTexts() []string {
	return []string{"eu", "us", "", "a b", "x.", strings.Repeat("v", 63), strings.Repeat("v", 64)}
}

// randomSelector returns one selector in both forms.
func randomSelector(r *rand.Rand, pick func([]string) string) (Selector, metav1.LabelSelector) {
	operators := []string{"In", "NotIn", "Exists", "DoesNotExist"}
	var own Selector
	var upstream metav1.LabelSelector
	for range r.IntN(2) {
		k, v := pick(labelKeys()), pick(labelTexts())
		own.MatchLabels, upstream.MatchLabels = map[string]string{k: v}, map[string]string{k: v}
	}
	for range r.IntN(3) {
		q := Requirement{Key: pick(labelKeys()), Operator: operators[r.IntN(4)]}
		if q.Operator == "In" || q.Operator == "NotIn" || r.IntN(10) == 0 {
			for range r.IntN(3) {
				q.Values = append(q.Values, pick(labelTexts()))
			}
		}
		own.MatchExpressions = append(own.MatchExpressions, q)
		upstream.MatchExpressions = append(upstream.MatchExpressions,
			metav1.LabelSelectorRequirement{
				Key: q.Key, Operator: metav1.LabelSelectorOperator(q.Operator),
				Values: q.Values,
			})
	}
	return own, upstream
}
