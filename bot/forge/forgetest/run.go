package forgetest

import "testing"

// Run tests an adapter against the contract.
func Run(t *testing.T, b Backend) {
	for name, test := range cases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b.New(t))
		})
	}
}
