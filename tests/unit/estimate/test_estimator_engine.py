"""tools/estimator-engine reckons an engine's checkpoints with the tokens that they hold, as its log tells them."""
import importlib.machinery
import importlib.util
import os
import sys
import unittest

MIB = 1 << 20
LOG = """0.15.663 I srv    load_model: context checkpoints enabled, max = 3, min spacing = 8192
0.16.562 I slot create_check: id  0 | task 0 | created context checkpoint 1 of 3 (pos_min = 0, pos_max = 0, n_tokens = 1, size = 0.114 MiB)
0.31.829 I slot create_check: id  0 | task 0 | created context checkpoint 2 of 3 (pos_min = 0, pos_max = 104, n_tokens = 105, size = 11.896 MiB)
1.43.297 I slot create_check: id  0 | task 0 | created context checkpoint 3 of 3 (pos_min = 0, pos_max = 616, n_tokens = 617, size = 69.902 MiB)
"""
WINDOW = {"base_bytes": 1000 * MIB, "checkpoints": {"most": 3, "state_bytes": 0, "token_bytes": 118784, "tokens_most": 1024}}


def tool():
    path = os.path.join(os.environ["COTENANT_TOOLS"], "estimator-engine")
    loader = importlib.machinery.SourceFileLoader("estimator_engine", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("estimator_engine", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.tool = tool()

    def test_they_hold_the_tokens_that_there_are(self):
        held = self.tool.checkpoints_in(LOG)
        self.assertEqual([tokens for tokens, _ in held], [1, 105, 617])
        self.assertEqual(self.tool.in_use(WINDOW, held), 1000 * MIB + 723 * 118784)
        self.assertTrue(self.tool.well_reckoned(WINDOW, held))

    def test_of_more_than_are_kept_the_oldest_are_gone(self):
        more = LOG + LOG.splitlines()[3].replace("pos_max = 616, n_tokens = 617", "pos_max = 699, n_tokens = 700")
        self.assertEqual([tokens for tokens, _ in self.tool.checkpoints_in(more)], [105, 617, 700])

    def test_those_of_an_earlier_life_do_not_count(self):
        self.assertEqual(self.tool.checkpoints_in(LOG + LOG.splitlines()[0]), [])

    def test_a_window_ends_and_a_state_does_not_grow(self):
        window, state = WINDOW["checkpoints"], {"state_bytes": 55 * MIB, "token_bytes": 0, "tokens_most": 0}
        self.assertEqual(self.tool.checkpoint_bytes(window, 5000), 1024 * 118784)
        self.assertEqual(self.tool.checkpoint_bytes(state, 5000), 55 * MIB)

    def test_one_that_is_larger_than_reckoned_is_told(self):
        small = {**WINDOW, "checkpoints": {**WINDOW["checkpoints"], "token_bytes": 100000}}
        self.assertFalse(self.tool.well_reckoned(small, self.tool.checkpoints_in(LOG)))


if __name__ == "__main__":
    unittest.main()
