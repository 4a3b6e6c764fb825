package cli

import (
	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
)

// signingFlag names the key of the commits that a verb writes: records and rendered branches.
type signingFlag struct{ key string }

func (s *signingFlag) flag(f *pflag.FlagSet) {
	f.StringVar(&s.key, "sign-key", "",
		"sign commits with the SSH or OpenPGP private key in this `file`, or with the SSH agent's key for a .pub file")
}

// sign sets the signer of a session that opens with the options.
func (s *signingFlag) sign(o IO, options *app.Options) (err error) {
	if s.key != "" {
		options.Signer, err = o.Env.Signer(s.key)
	}
	return err
}
