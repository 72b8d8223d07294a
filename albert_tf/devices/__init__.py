"""Devices and strategies of tf.distribute: the one room that names them."""
