"""Bytes through HBM are counted from the text of a compiled program."""

from albert_tf.planning import hlo_traffic

PROGRAM = """HloModule step, is_scheduled=true

%fused (p: f32[4,8]) -> f32[4,8] {
  %p = f32[4,8]{1,0:T(8,128)} parameter(0)
  ROOT %twice = f32[4,8]{1,0:T(8,128)} add(%p, %p)
}

ENTRY %main (a: f32[4,8], b: bf16[8,16]) -> (f32[4,8], pred[3]) {
  %a = f32[4,8]{1,0:T(8,128)} parameter(0)
  %b = bf16[8,16]{1,0:T(8,128)(2,1)} parameter(1)
  %start = (bf16[8,16]{1,0:T(8,128)(2,1)S(1)}, bf16[8,16]{1,0}, u32[]{:S(2)}) \
copy-start(%b), cross_program_prefetch_index=0
  %done = bf16[8,16]{1,0:T(8,128)(2,1)S(1)} copy-done(%start)
  %product = f32[4,16]{1,0:T(8,128)S(1)} fusion(%a, %done), kind=kOutput, calls=%fused
  %sum = f32[4,8]{1,0} fusion(%a, %product), kind=kLoop, calls=%fused
  %part = ((f32[4,8]{1,0}), f32[2,8]{1,0:S(1)}, s32[]{:S(2)}) \
slice-start(%a), slice={[0:2], [0:8]}
  %half = f32[2,8]{1,0:S(1)} slice-done(%part)
  %mask = pred[3]{0} compare(%sum, %a), direction=GT
  ROOT %out = (f32[4,8]{1,0}, pred[3]{0}) tuple(%sum, %mask)
}
"""


def test_memory_on_the_chip_and_fused_operations_do_not_count():
    a, b = 4 * 8 * 4, 8 * 16 * 2
    copied = b + a // 2
    product = a
    total = a + a
    mask = 2 * a + 3
    assert hlo_traffic.hbm_bytes(PROGRAM) == copied + product + total + mask
